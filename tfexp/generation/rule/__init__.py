"""What may not, or must, be said next, one idea per file.

A rule is a callable of scores (R, V), logits or log-probabilities, and the rows that they follow; it changes
the scores in place.
"""
