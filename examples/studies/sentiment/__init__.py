"""A Transformer on SST-2, compared with a logistic regression."""
