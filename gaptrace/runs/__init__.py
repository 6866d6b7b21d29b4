"""Runs and sweeps: several recordings read together."""
