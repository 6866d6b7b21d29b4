"""What the field knows, kept as data: kernel names, runtime calls, devices, words.

Nothing here reads a trace. Every function answers a question about a name, from tables that are
loaded on first use and carry their sources.
"""
