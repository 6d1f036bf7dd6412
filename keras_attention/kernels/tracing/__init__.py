"""Whether numbers are known yet."""
