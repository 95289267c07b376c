"""Components that each break a law which models keep: the tests of the laws must see them."""

from dataclasses import replace

import torch

from tfexp.components.attention.retention import Retention
from tfexp.components.attention.softmax import SoftmaxAttention
from tfexp.components.base import Attention, FeedForward, Head, Pooling, Position


class LooksAhead(FeedForward):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x):
        return x.flip(1)


class AveragesTheBatch(FeedForward):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x):
        return x - x.mean(dim=0, keepdim=True)


class CountsFromTheStart(Position):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def embed(self, x, positions):
        return x + torch.arange(x.shape[1], dtype=x.dtype).view(1, -1, 1) * torch.arange(x.shape[2])


class SumsOverTheBatch(Position):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def embed(self, x, positions):
        return x + torch.arange(x.shape[2]) * positions.to(x.dtype).mean()


class DividesByNothing(FeedForward):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x):
        return x / x[1:].sum().sub(x[1:].sum())


class Restless(FeedForward):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5, training=True)


class ScoresDifferences(Head):
    """Each position from its neighbour."""

    def __init__(self, d_model: int, vocab_size: int) -> None:
        super().__init__()
        self.project = torch.nn.Linear(d_model, vocab_size)

    def tie(self, weight):
        pass

    def forward(self, hidden):
        return self.project(hidden - hidden.roll(1, dims=-2))


class PoolsThePadding(Pooling):
    def forward(self, hidden, mask):
        return hidden.mean(dim=1)


class ReadsTheFirstOnly(SoftmaxAttention):
    """Of a memory it reads the first token."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, head_dim: int) -> None:
        super().__init__(d_model, n_heads, n_kv_heads, head_dim, 0.0)

    def forward(self, x, context, memory=None):
        return super().forward(x, context, memory if memory is None else memory[:, :1])


class Inattentive(Attention):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x, context, memory=None):
        return x


class RemembersPadding(Retention):
    """A recurrence that takes padded tokens for real ones."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, head_dim: int) -> None:
        super().__init__(d_model, n_heads, n_kv_heads, head_dim)

    def forward(self, x, context, memory=None, state=None):
        return super().forward(x, replace(context, real=None), memory, state)


class RemembersOtherDocuments(RemembersPadding):
    """A recurrence that goes on where a new document starts."""

    def forward(self, x, context, memory=None, state=None):
        return Retention.forward(self, x, replace(context, starts=None), memory, state)


class ForgetsItsState(RemembersPadding):
    """A recurrence that starts anew with every pass."""

    def forward(self, x, context, memory=None, state=None):
        return Retention.forward(self, x, context, memory, None)
