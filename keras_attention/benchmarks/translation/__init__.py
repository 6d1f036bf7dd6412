"""Multi30k: recurrent translators and a Transformer, their peers, and their BLEU."""
