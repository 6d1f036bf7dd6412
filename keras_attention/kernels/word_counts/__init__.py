"""Weighted word counts of sentences."""
