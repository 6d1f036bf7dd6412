"""Multi30k: BLEU of recurrent translators and a Transformer, and of their peers."""
