"""Text to batches: source -> tokenizer -> encoded cache -> blocks.

Stands beside the model and never imports it; the two meet in `tfexp.batch.Batch`.
"""
