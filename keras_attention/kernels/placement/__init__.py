"""Tensors and weights on the devices of a mesh."""
