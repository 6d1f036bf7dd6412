"""Skip-gram beside gensim's Word2Vec, on pairs and analogies written down before."""
