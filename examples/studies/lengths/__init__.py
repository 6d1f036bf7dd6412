"""The quality of translations over sentence length, with and without attention."""
