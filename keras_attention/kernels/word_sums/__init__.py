"""Two weighted sums of the word embeddings of sentences."""
