"""Calls of Keras layers without what Keras does around them."""
