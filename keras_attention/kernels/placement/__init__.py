"""Where the weights of a model lie, if `keras.distribution` splits them."""
