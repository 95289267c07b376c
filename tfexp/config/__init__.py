"""The whole config: composed by Hydra, held against typed schemas, completed, frozen.

Knows the shape of a run, not how to run it. May import components' registry, the model's
description and below; never Lightning.
"""
