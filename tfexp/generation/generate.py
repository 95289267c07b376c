"""Texts in, texts out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfexp.errors import ConfigError, DataError
from tfexp.generation.base import Hypothesis, Reason
from tfexp.generation.session import Request, Session
from tfexp.generation.text import TextStream
from tfexp.model.transformer import Transformer
from tfexp.registry import check_choice


@dataclass(frozen=True)
class Answer:
    """One answer to a prompt.

    Args:
        text: What was generated, without the prompt, up to a stop string.
        score: What the strategy ranks by; higher is better.
        logprobs: ln p of each generated token, the end token included.
        ids: The generated tokens, without the end token.
        reason: Why it ended: `end` token, `stop` string, `length` or `time` limit.
    """

    text: str
    score: float
    logprobs: list[float]
    ids: list[int]
    reason: Reason


def generate(
    model: Transformer,
    prompts: Sequence[str],
    strategy: str = "sample",
    draft_model: Transformer | None = None,
    **options: Any,
) -> list[str]:
    """Continue each prompt, or translate each source; returns the texts without the prompts.

    Args:
        model: From `tfexp.load`, which also gives it its tokenizer.
        prompts: Texts; an empty one starts where a document would.
        strategy: A registered choice of `generation`.
        draft_model: A smaller model with the same vocabulary, for `speculative`.
        options: Keys of that choice, such as `temperature=0.8` or `max_new_tokens=50`; an unknown one
            is refused.

    Raises:
        ConfigError: Unknown strategy or option, or a value out of its range.
        DataError: A prompt that cannot be encoded, or is longer than the model's positions.
    """
    found = generate_answers(model, prompts, strategy, draft_model, **options)
    return [answers[0].text for answers in found]


def generate_answers(
    model: Transformer,
    prompts: Sequence[str],
    strategy: str = "sample",
    draft_model: Transformer | None = None,
    **options: Any,
) -> list[list[Answer]]:
    """As `generate`, with every hypothesis of each prompt, best first, and its scores."""
    choice = check_choice("generation", {"name": strategy, **options}, "generation")
    with Session(model, choice, draft=draft_model) as session:
        return answer_all(session, prompts)


def stream(
    model: Transformer,
    prompt: str,
    strategy: str = "sample",
    draft_model: Transformer | None = None,
    **options: Any,
) -> Iterator[str]:
    """As `generate` for one prompt, piece by piece as the text becomes certain."""
    choice = check_choice("generation", {"name": strategy, **options}, "generation")
    with Session(model, choice, draft=draft_model) as session:
        yield from stream_one(session, prompt)


def answer_all(session: Session, prompts: Sequence[str]) -> list[list[Answer]]:
    """Every hypothesis of each prompt, best first; prompt k draws from stream k."""
    requests = [encode_prompt(session, prompt, index) for index, prompt in enumerate(prompts)]
    return [[as_answer(session, h) for h in hypotheses] for hypotheses in session.answer(requests)]


def stream_one(session: Session, prompt: str, index: int = 0) -> Iterator[str]:
    """Pieces of the best text for a prompt."""
    written = TextStream(session.tokenizer.decode, session.stops)
    running = session.run([encode_prompt(session, prompt, index)])
    while True:
        try:
            piece = written.add(next(running).id)
        except StopIteration as finished:
            piece = written.finish(as_answer(session, finished.value[0][0]).text)
            if piece:
                yield piece
            return
        if piece:
            yield piece


def encode_prompt(session: Session, prompt: str, index: int = 0) -> Request:
    """The request that a text is: of an encoder-decoder its source, else the beginning of the text."""
    tokenizer, ends = session.tokenizer, session.ends
    if tokenizer is None:
        raise ConfigError("generate: this model has no tokenizer; get it with tfexp.load(run)")
    ids = tokenizer.encode(prompt)
    if session.model.source_embedding is not None:
        if ends.begin is None or ends.end is None:
            raise ConfigError("generate: an encoder-decoder needs a tokenizer with bos and eos")
        return Request([ends.begin], [*ids, ends.end], index)
    if not ids:
        if ends.end is None:
            raise DataError(
                "generate: an empty prompt needs a tokenizer with an eos token; give some text to start from"
            )
        ids = [ends.end]  # a document begins where another ended
    return Request(ids, None, index)


def as_answer(session: Session, hypothesis: Hypothesis) -> Answer:
    """A hypothesis as text, without what a stop string cuts off."""
    text = session.stops.cut(session.tokenizer.decode(hypothesis.ids))
    return Answer(text, hypothesis.score, hypothesis.logprobs, hypothesis.ids, hypothesis.reason)


def told(answers: Sequence[Answer]) -> dict[str, Any]:
    """The best answer as plain data, and the others if there are some."""
    best, *others = ({"text": a.text, "score": a.score, "logprobs": a.logprobs, "reason": a.reason} for a in answers)
    return {**best, "others": others} if others else best
