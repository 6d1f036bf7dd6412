"""How often each word stands in each sentence."""
