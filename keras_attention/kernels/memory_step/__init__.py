"""One step of a DNC's memory: its equations and their explicit gradient."""
