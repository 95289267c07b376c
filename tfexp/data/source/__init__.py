"""Sources of text, one per file; each reads a `Corpus`."""
