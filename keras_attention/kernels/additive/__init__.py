"""The additive score, of many queries at once and of one."""
