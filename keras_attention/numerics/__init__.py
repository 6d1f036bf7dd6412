"""What everything stands on: precision, masks, axes, normalizers."""
