"""Recordings of the same thing compared: what changed, by how much, and is it noise."""
