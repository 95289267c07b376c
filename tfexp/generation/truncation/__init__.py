"""Ways to cut a distribution down before drawing from it, one idea per file.

Each takes probabilities (R, V), whose rows sum to 1, and returns which tokens are kept, at least one a row.
"""
