"""One step of a DNC's memory, with its gradient written out."""
