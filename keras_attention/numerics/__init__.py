"""Numerical basics of the package: precision, masks, axes and normalizers."""
