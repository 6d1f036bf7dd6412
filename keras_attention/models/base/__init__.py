"""Shared parts of models: arguments and generation."""
