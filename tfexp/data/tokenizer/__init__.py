"""Tokenizers, one per file; each trains a tokenizer of the tokenizers library."""
