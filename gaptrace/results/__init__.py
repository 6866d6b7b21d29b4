"""The plain data of every `gaptrace.*/1` object: what commands print, save, compare and embed."""
