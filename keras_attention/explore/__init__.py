"""The live page: look inside trained networks, `python -m keras_attention.explore`."""
