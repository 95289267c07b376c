"""The keys that every choice of `data` takes besides its own."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tfexp.schema import NO_EFFECT, ChoiceOf, Range


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """How text becomes batches.

    Args:
        seq_len: Tokens in a training example; null = model.max_seq_len.
        batch_size: Examples in a micro-batch.
        tokenizer: Turns text into ids; trained on the training part only.
        sampling: `blocks` = every token once per epoch, in an order and with a start drawn anew for
            each epoch; `windows` = starts drawn at random, with replacement.
        workers: Loader processes; changes nothing but speed.
    """

    seq_len: Annotated[int | None, Range(ge=1)] = None
    batch_size: Annotated[int, Range(ge=1)] = 16
    tokenizer: Annotated[Any, ChoiceOf("tokenizer")] = "bpe"
    sampling: Literal["blocks", "windows"] = "blocks"
    workers: Annotated[int, Range(ge=0), NO_EFFECT] = 0
