"""Kernels of decoding: a loop that stops early, writing into a buffer, compiling."""
