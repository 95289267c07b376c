"""Ways to choose the next token, one per file."""
