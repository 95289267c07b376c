"""From a model and prompts to text: a loop, and strategies that choose the next token."""
