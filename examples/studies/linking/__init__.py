"""Questions as people write them, linked to the films of a knowledge base."""
