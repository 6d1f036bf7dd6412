"""Attention over a sequence that is split over the devices of a mesh."""
