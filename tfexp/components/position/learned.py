"""A trained vector for each position."""

from torch import Tensor, nn

from tfexp.components.base import Position, note
from tfexp.registry import register


@register("position", "learned", gives={"absolute"})
class Learned(Position):
    """Add a learned vector per position to the token embeddings: x += P[pos].

    Args:
        d_model: Width.
        max_seq_len: Rows of the table; a longer sequence is refused before the lookup.

    Shapes:
        embed: (B, T, D), positions (T,) or (B, T) -> (B, T, D). max_seq_len * d_model parameters.

    Source: Gehring et al., 2017, arXiv:1705.03122; Vaswani et al., 2017, section 3.5 and Table 3 (E).
    """

    def __init__(self, d_model: int, max_seq_len: int) -> None:
        super().__init__()
        self.max_positions = max_seq_len
        self.table = nn.Embedding(max_seq_len, d_model)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + note("position", self.table(positions))
