"""Speed, memory and the papers' tables: `python -m keras_attention.benchmarks`.

It uses the whole package and nothing in the package uses it.
"""
