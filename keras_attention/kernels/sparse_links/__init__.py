"""Sparse temporal links of a DNC's memory."""
