"""Hides all backends except that of ONE_BACKEND; see tests/one_backend.py."""

import importlib.machinery
import os
import sys

PACKAGES = {
    "jax": {"jax", "jaxlib"},
    "torch": {"torch"},
    "tensorflow": {"tensorflow", "tensorflow_text"},
    "openvino": {"openvino"},
}
PACKAGES.pop(os.environ["ONE_BACKEND"], None)
HIDDEN = set().union(*PACKAGES.values())


class VisiblePathFinder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            return None
        return super().find_spec(name, path, target)


place = sys.meta_path.index(importlib.machinery.PathFinder)
sys.meta_path[place] = VisiblePathFinder
