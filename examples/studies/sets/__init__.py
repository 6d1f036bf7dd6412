"""The maximum of a set: pooling against a Set Transformer."""
