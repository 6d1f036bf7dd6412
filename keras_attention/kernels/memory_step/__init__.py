"""One step of a DNC's memory: its equations, and their gradient written out."""
