"""Tracing and replay of the calls of layers, models and loop steps, on torch."""
