"""The links of a DNC's memory as what is not 0 of them."""
