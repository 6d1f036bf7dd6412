"""Measurements of speed, memory and scale: `python tests/speed COMMAND …`."""
