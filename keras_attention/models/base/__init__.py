"""Shared parts of models: arguments, generation and quantization."""
