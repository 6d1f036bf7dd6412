"""Kernels that keep tensors split over devices."""
