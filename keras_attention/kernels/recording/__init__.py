"""Recording and replay of the calls of a layer or model, on torch."""
