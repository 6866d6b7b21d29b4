"""Drawings: blocks to shapes at percentages of a width that stretches, for HTML and SVG."""
