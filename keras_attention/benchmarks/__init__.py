"""Benchmarks of speed, memory and published results.

Run them with `python -m keras_attention.benchmarks`. No other part of the package
imports this module.
"""
