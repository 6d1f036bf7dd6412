"""Kernels of decoding: a loop with early stopping, buffer updates and compilation."""
