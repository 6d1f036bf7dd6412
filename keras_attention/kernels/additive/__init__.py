"""The additive score vᵀ tanh(q + k), of many queries at once and one by one."""
