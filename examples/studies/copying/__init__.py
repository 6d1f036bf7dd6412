"""Names that training does not contain, with and without copying."""
