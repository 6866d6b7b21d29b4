"""Document to text: one file a format, one function a block type."""
