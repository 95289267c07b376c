"""Registered parts of a Transformer: one folder per slot, one published idea per file.

May import `tfexp.registry` and below, and torch; never another slot, the model, data or Lightning.
"""
