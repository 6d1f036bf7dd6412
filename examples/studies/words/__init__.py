"""Skip-gram compared with gensim's Word2Vec on fixed pairs and analogies."""
