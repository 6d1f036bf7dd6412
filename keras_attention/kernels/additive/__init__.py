"""The additive score vᵀ tanh(q + k), for many queries or a single query."""
