"""Results to text: terminal, JSON, Markdown, SVG and HTML. Nothing here computes a metric."""
