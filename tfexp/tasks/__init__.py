"""One file per task: how a batch becomes a loss, and how an evaluation becomes metrics.

Plain classes on torch; `tfexp.training.module` wraps any of them for Lightning, so that listing the
tasks does not cost Lightning's import.
"""
