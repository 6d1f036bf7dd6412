"""Block puzzles by reinforcement: an actor and a critic with an external memory."""
