"""Bags of instances with one label per bag, for multiple-instance learning.

A bag is a set of any number of instances. It is positive if at least one of its
instances is positive. Tiger and Elephant (images as bags of regions) and Musk1
(molecules as bags of conformations) are read from files. Bit patterns, latch sequences
and bags of digits are generated.

```python
from keras_attention.datasets import bags

tiger = bags.load("tiger")
inputs, labels = tiger.padded(), tiger.labels
inputs["instances"].shape  # (200, 13, 230)
```

Tiger and Elephant: Andrews, Tsochantaridis & Hofmann, "Support vector machines for
multiple-instance learning" (2003). Musk1: Dietterich, Lathrop & Lozano-Pérez, "Solving
the multiple instance problem with axis-parallel rectangles" (1997). Neither is part of
this package.
"""

from keras_attention.datasets.bags.made import bit_patterns, digits, latch_sequences
from keras_attention.datasets.bags.padding import Bags
from keras_attention.datasets.bags.readers import load, read_mat, read_table

__all__ = [
    "Bags",
    "bit_patterns",
    "digits",
    "latch_sequences",
    "load",
    "read_mat",
    "read_table",
]
