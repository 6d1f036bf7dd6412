"""The last state of a recurrent network, compared with attention over all states."""
