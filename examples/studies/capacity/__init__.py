"""How many patterns memories of neurons hold, compared with theory."""
