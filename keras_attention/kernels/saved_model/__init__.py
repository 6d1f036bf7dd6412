"""SavedModels of a function that uses the weights of a model."""
