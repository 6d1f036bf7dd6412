"""Multi30k: recurrent translators with attention and without, and their BLEU."""
