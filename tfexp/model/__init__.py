"""From a checked description to a Transformer: spec -> build -> transformer -> stack -> block.

May import components and below; never data, tasks, training or Lightning.
"""
