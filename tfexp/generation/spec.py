"""The keys that every choice of `generation` takes besides its own."""

from dataclasses import dataclass
from typing import Annotated

from tfexp.schema import Range


@dataclass(frozen=True, kw_only=True)
class GenerationSpec:
    """How long, and from which random stream.

    Args:
        max_new_tokens: Generate at most so many tokens after the prompt.
        seed: Of the stream `generate`; prompt k of a call draws from index k, whatever stands beside it.
    """

    max_new_tokens: Annotated[int, Range(ge=1)] = 200
    seed: Annotated[int, Range(ge=0)] = 0
