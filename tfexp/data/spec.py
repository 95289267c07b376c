"""The keys that every choice of `data` takes besides its own."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from tfexp.schema import NO_EFFECT, ChoiceOf, Range


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """How text becomes batches.

    Args:
        seq_len: Tokens in a training example, at most; null = model.max_seq_len.
        batch_size: Examples in a micro-batch.
        batch_tokens: Tokens in a micro-batch of examples of unequal length, padding included, in place of
            `batch_size`; null = by `batch_size`.
        tokenizer: Turns text into ids; trained on the training part only.
        sampling: Of documents. `blocks` = every token once per epoch, in an order and with a start drawn
            anew for each epoch; `windows` = starts drawn at random, with replacement.
        packing: Of documents in one block: `across` = attention crosses from one to the next; `inside` =
            it stays inside a document, and positions start anew there.
        overlong: What becomes of a training example that is longer than `seq_len`: `truncate` or `drop`.
            In evaluation nothing is ever dropped, and what of an answer does not fit counts as wrong.
        workers: Loader processes; changes nothing but speed.
    """

    seq_len: Annotated[int | None, Range(ge=1)] = None
    batch_size: Annotated[int, Range(ge=1)] = 16
    batch_tokens: Annotated[int | None, Range(ge=1)] = None
    tokenizer: Annotated[Any, ChoiceOf("tokenizer")] = "bpe"
    sampling: Literal["blocks", "windows"] = "blocks"
    packing: Literal["across", "inside"] = "across"
    overlong: Literal["truncate", "drop"] = "truncate"
    workers: Annotated[int, Range(ge=0), NO_EFFECT] = 0

    @classmethod
    def from_node(cls, node: Mapping[str, Any]) -> "DataSpec":
        """The common keys of a checked `data` node."""
        return cls(**{f.name: node[f.name] for f in fields(cls)})

    @property
    def length(self) -> int:
        """`seq_len`, which a frozen config always states."""
        assert self.seq_len is not None
        return self.seq_len
