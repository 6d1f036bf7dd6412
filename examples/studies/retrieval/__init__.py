"""Half-hidden digits, retrieved by a modern memory."""
