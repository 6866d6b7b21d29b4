"""Trace to Analysis: every figure is derived here, and only here."""
