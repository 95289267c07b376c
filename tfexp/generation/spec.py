"""The keys that every choice of `generation` takes besides its own."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tfexp.schema import Range


@dataclass(frozen=True, kw_only=True)
class GenerationSpec:
    """How long, under which rules, from which random stream, and how the model is run.

    Args:
        max_new_tokens: Generate at most so many tokens after the prompt, the end token included.
        min_new_tokens: The end token is not chosen before so many tokens.
        max_seconds: Stop after so many seconds with what is there; null = no limit.
        stop: Texts at whose first appearance generation ends; they are not part of the answer; null = none.
        seed: Of the stream `generate`; prompt k of a call draws from index k, whatever stands beside it.
        repetition_penalty: Divides the positive and multiplies the negative scores of tokens seen in the prompt or
            since; 1 = none. Usual: 1.2 (Keskar et al., 2019, arXiv:1909.05858, section 4.1).
        frequency_penalty: Taken from a token's score for each time it was generated; 0 = none.
        presence_penalty: Taken once from the score of a token that was generated; 0 = none.
        no_repeat_ngram: No sequence of so many tokens comes twice; 0 = no such rule (Paulus et al., 2017,
            arXiv:1705.04304, section 2.5).
        banned: Texts whose tokens never come in a row; null = none.
        forced_start: A text that every answer begins with, such as a target-language tag; null = none.
        forced_end: An answer at the length limit ends with the end token, as in BART.
        batch_size: Prompts that are answered at once.
        truncate_prompt: Read only the end of a prompt that is longer than the model's positions, instead of
            refusing it.
        slide: Tokens that leave the context at once when a text outgrows `model.max_seq_len`; 1 keeps the most in
            sight, more costs less, since positions are counted anew after each move.
        cache: What is kept between tokens: `static` buffers allocated ahead, `growing` ones of exact size, `int8`
            numbers (not exact), or `none`: every step passes the whole text again.
        fast: Reorder weights for decoding on a CPU; the same results up to rounding.
        dtype: Precision of the model while decoding; null = as trained.
    """

    max_new_tokens: Annotated[int, Range(ge=1)] = 200
    min_new_tokens: Annotated[int, Range(ge=0)] = 0
    max_seconds: Annotated[float | None, Range(gt=0)] = None
    stop: list[str] | None = None
    seed: Annotated[int, Range(ge=0)] = 0
    repetition_penalty: Annotated[float, Range(gt=0)] = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    no_repeat_ngram: Annotated[int, Range(ge=0)] = 0
    banned: list[str] | None = None
    forced_start: str | None = None
    forced_end: bool = False
    batch_size: Annotated[int, Range(ge=1)] = 32
    truncate_prompt: bool = False
    slide: Annotated[int, Range(ge=1)] = 1
    cache: Literal["static", "growing", "int8", "none"] = "static"
    fast: bool = True
    dtype: Literal["float32", "bfloat16", "float64"] | None = None
