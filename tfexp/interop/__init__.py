"""Hugging Face weights in and out: one file per family, each a table of options and a table of tensors.

May import the model and below. transformers is an extra, imported where it is used.
"""
