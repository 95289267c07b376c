"""The loop: one token after another."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tfexp.errors import ConfigError, DataError
from tfexp.generation.base import Strategy
from tfexp.model.transformer import Transformer
from tfexp.registry import check_choice, create
from tfexp.streams import torch_stream


def generate(model: Transformer, prompts: Sequence[str], strategy: str = "sample", **options: Any) -> list[str]:
    """Continue each prompt; returns the continuations without the prompts.

    Args:
        model: From `tfexp.load`, which also gives it its tokenizer.
        prompts: Texts; an empty one starts where a document would.
        strategy: A registered choice of `generation`.
        options: Keys of that choice, such as `temperature=0.8` or `max_new_tokens=50`; an unknown one
            is refused.

    Raises:
        ConfigError: Unknown strategy or option, or a value out of its range.
        DataError: A prompt that cannot be encoded.
    """
    choice = check_choice("generation", {"name": strategy, **options}, "generation")
    return [generate_one(model, prompt, choice, index) for index, prompt in enumerate(prompts)]


@torch.no_grad()
def generate_one(
    model: Transformer,
    prompt: str,
    choice: dict[str, Any],
    index: int = 0,
    on_text: Callable[[str], None] | None = None,
) -> str:
    """Continue one prompt until the end-of-sequence token or the limit.

    Beyond the model's `max_seq_len` the context slides: only the last tokens are seen, and their
    positions are counted anew.

    Args:
        model: From `tfexp.load`.
        prompt: Its text.
        choice: A checked node of the slot `generation`.
        index: Which prompt of a call this is; it names the random stream.
        on_text: Called with each piece of text as it comes.
    """
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ConfigError("generate: this model has no tokenizer; get it with tfexp.load(run)")
    strategy: Strategy = create("generation", choice, {})
    generator = torch_stream(choice["seed"], "generate", index)
    end = tokenizer.special_id("eos")
    ids = _encode_prompt(tokenizer, prompt, end)
    n_prompt, shown = len(ids), ""
    for _ in range(choice["max_new_tokens"]):
        token = strategy.choose(_next_logits(model, ids), generator)
        if token == end:
            break
        ids.append(token)
        text = tokenizer.decode(ids[n_prompt:])
        if on_text is not None and not text.endswith("\ufffd"):  # a character may need more tokens
            on_text(text[len(shown) :])
            shown = text
    text = tokenizer.decode(ids[n_prompt:])
    if on_text is not None and text != shown:  # ended inside a character
        on_text(text[len(shown) :])
    return text


def _encode_prompt(tokenizer: Any, prompt: str, end: int | None) -> list[int]:
    if prompt:
        return tokenizer.encode(prompt)
    if end is None:
        raise DataError("generate: an empty prompt needs a tokenizer with an eos token; give some text to start from")
    return [end]


def _next_logits(model: Transformer, ids: list[int]) -> Tensor:
    context = torch.tensor([ids[-model.spec.max_seq_len :]], device=next(model.parameters()).device)
    return model(context).logits[0, -1].float()
