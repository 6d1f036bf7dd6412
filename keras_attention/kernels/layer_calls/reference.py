"""Regular calls of Keras layers: compiled functions pay their overhead only once."""

from operator import call

dense = normalize = call
