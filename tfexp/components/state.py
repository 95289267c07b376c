"""What attention layers remember of the tokens that were decoded so far.

A state belongs to one call. Each kind knows how many numbers it holds, and how to follow when rows of
the batch are chosen, repeated or dropped, and when the text is cut back.
"""

import torch
from torch import Tensor


class AttentionState:
    """The contract: what a layer remembers between two passes."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may come several times."""
        raise NotImplementedError

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        raise NotImplementedError

    def numbers(self) -> int:
        """How many numbers are held."""
        raise NotImplementedError

    def n_bytes(self) -> int:
        """The memory of what is held."""
        raise NotImplementedError


class KeyValueState(AttentionState):
    """Keys and values of all tokens so far, each (B, G, S, K); 2 B S G K numbers."""

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens; returns those of all."""
        if self.key is None or self.value is None:
            self.key, self.value = key, value
        else:
            self.key, self.value = torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2)
        return self.key, self.value

    def reorder(self, rows: Tensor) -> None:
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key[rows], self.value[rows]

    def truncate(self, length: int) -> None:
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key[:, :, :length], self.value[:, :, :length]

    def numbers(self) -> int:
        return sum(t.numel() for t in (self.key, self.value) if t is not None)

    def n_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.key, self.value) if t is not None)


class CrossState(KeyValueState):
    """Keys and values of an encoder's output: computed once, and not cut back with the target."""

    def truncate(self, length: int) -> None:
        pass
