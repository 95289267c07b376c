"""A model made ready to generate, and the way of requests through it."""

import copy
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields
from typing import Any, Self

import torch

from tfexp.components.packing import packed
from tfexp.components.state import StatePlan, Storage
from tfexp.errors import ConfigError, DataError
from tfexp.generation.base import Answers, Call, Engine, Rules, Strategy, Token
from tfexp.generation.engine import CachedEngine, RecomputingEngine
from tfexp.generation.rules import build_rules
from tfexp.generation.sampler import drain
from tfexp.generation.spec import GenerationSpec
from tfexp.generation.text import StopStrings
from tfexp.model.block import Memory
from tfexp.model.ends import Ends
from tfexp.model.mode import Precision, arithmetic, evaluation_mode
from tfexp.model.transformer import Transformer
from tfexp.registry import create
from tfexp.streams import torch_stream


@dataclass(frozen=True)
class Request:
    """What is to be answered.

    Args:
        prompt: What the decoder reads first, never empty; of an encoder-decoder the beginning of the target.
        source: Of an encoder-decoder: what the encoder reads.
        index: Names the request's random stream.
    """

    prompt: Sequence[int]
    source: Sequence[int] | None = None
    index: int = 0


class Session:
    """Holds what one choice of `generation` needs of a model; leave it with `close` or `with`.

    Args:
        model: A decoder or an encoder-decoder.
        choice: A checked node of the slot `generation`.
        ends: Special ids; None = the tokenizer's, or those that an imported model brought along.
        draft: A smaller model, for strategies that ask for one.
        tokenizer: For stop strings and the like; None = the model's own, if it has one.

    Raises:
        ConfigError: The strategy does not fit the model.
    """

    def __init__(
        self,
        model: Transformer,
        choice: dict[str, Any],
        ends: Ends | None = None,
        draft: Transformer | None = None,
        tokenizer: Any = None,
    ) -> None:
        common = {f.name: choice[f.name] for f in fields(GenerationSpec)}
        self.spec = GenerationSpec(**common)
        self.strategy: Strategy = create("generation", choice, {})
        self.tokenizer = tokenizer or model.tokenizer
        if model.decoder is None or model.pooling is not None:
            raise ConfigError(f"generate: a model of architecture={model.spec.architecture} writes no text")
        if self.strategy.draft is not None and draft is None:
            raise ConfigError("generation.draft: give the draft model itself, draft_model=tfexp.load(run)")
        assert model.spec.vocab_size is not None
        self.strategy.check(model.spec.vocab_size)
        self.ends = ends or ends_of(model)
        self.stops = StopStrings(self._texts("stop"), self._decode)
        self._rules = self._build_rules()
        self.precision: Precision | None = model.precision if self.spec.dtype is None else "32-true"
        with ExitStack() as ready:  # undone at once if the second model cannot be made ready
            self.model = self._prepare(model, ready)
            self.draft = None if draft is None or self.strategy.draft is None else self._prepare(draft, ready)
            self._ready = ready.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the model back as it was."""
        self._ready.close()

    def answer(self, requests: Sequence[Request]) -> Answers:
        """Hypotheses for each request, best first."""
        with self._arithmetic():  # around it all: weights are rounded once, not at every step
            return drain(self.run(requests))

    def run(self, requests: Sequence[Request]) -> Generator[Token, None, Answers]:
        """Answer requests, similar lengths together; yields tokens as they become certain.

        Raises:
            DataError: A request that the model cannot read; nothing was computed then.
        """
        requests = [self._checked(number, request) for number, request in enumerate(requests, start=1)]
        return (yield from self._run_checked(requests))

    @torch.inference_mode()
    def _run_checked(self, requests: Sequence[Request]) -> Generator[Token, None, Answers]:
        started = time.monotonic()
        order = sorted(range(len(requests)), key=lambda k: (len(requests[k].source or ()), len(requests[k].prompt)))
        size = 1 if self.strategy.one_by_one else self.spec.batch_size
        answers: Answers = [[] for _ in requests]
        for first in range(0, len(order), size):
            chosen = order[first : first + size]
            with self._arithmetic():
                call = self._call([requests[k] for k in chosen], started)
            running = self.strategy.run(call)
            while True:
                try:
                    with self._arithmetic():  # not around the yield: whoever takes the token has one of their own
                        token = next(running)
                except StopIteration as finished:
                    for k, hypotheses in zip(chosen, finished.value, strict=True):
                        answers[k] = hypotheses
                    break
                yield Token(chosen[token.request], token.id)
        return answers

    def _call(self, requests: Sequence[Request], started: float) -> Call:
        spec, limit = self.spec, self._limit(self.model)
        n_prompt = max(len(r.prompt) for r in requests)
        longest = spec.max_new_tokens
        memory, draft_memory = self._encode(self.model, requests), None
        if memory is not None:  # a target does not slide: it would lose its beginning
            longest = min(longest, limit - n_prompt + 1)
        if self.draft is not None:
            draft_memory = self._encode(self.draft, requests)
        deadline = None if spec.max_seconds is None else started + spec.max_seconds
        return Call(
            engine=self._engine(self.model, memory, n_prompt + longest),
            prompts=[r.prompt for r in requests],
            generators=[torch_stream(spec.seed, "generate", r.index) for r in requests],
            rules=self._rules(longest),
            end=self.ends.end,
            max_new_tokens=longest,
            text=self._decode,
            stopped=self.stops,
            out_of_time=lambda: deadline is not None and time.monotonic() >= deadline,
            draft=None if self.draft is None else self._engine(self.draft, draft_memory, n_prompt + longest),
        )

    def _engine(self, model: Transformer, memory: Memory | None, n_tokens: int) -> Engine:
        limit, slide = self._limit(model), min(self.spec.slide, self._limit(model))
        if self.spec.cache == "none":
            return RecomputingEngine(model, memory, limit, slide)
        storage: Storage = self.spec.cache
        return CachedEngine(model, memory, limit, slide, StatePlan(storage, min(n_tokens, limit)))

    def _encode(self, model: Transformer, requests: Sequence[Request]) -> Memory | None:
        if model.source_embedding is None:
            return None
        rows = [list(r.source or ()) for r in requests]
        width, fill = max(map(len, rows)), self.ends.pad or 0
        device = next(model.parameters()).device
        source = torch.tensor([row + [fill] * (width - len(row)) for row in rows], device=device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        mask = torch.arange(width, device=device) < lengths[:, None]  # (B, S)
        return model.encode(source, None if bool(mask.all()) else mask)

    def _checked(self, number: int, request: Request) -> Request:
        """The request as it will be read, or DataError."""
        limit, vocab_size = self._limit(self.model), self.model.spec.vocab_size or 0
        sides = {"prompt": request.prompt}
        if self.model.source_embedding is not None:
            sides["source"] = request.source or ()
        read = {}
        for side, ids in sides.items():
            if not ids:
                raise DataError(f"generate: {side} {number} is empty; give some text to start from")
            strange = [i for i in ids if not 0 <= i < vocab_size]
            if strange:
                raise DataError(
                    f"generate: {side} {number} holds token {strange[0]}; the model knows 0 to {vocab_size - 1}"
                )
            if len(ids) > limit and not self.spec.truncate_prompt:
                remedy = "shorten it, or read only its end with generation.truncate_prompt=true"
                raise DataError(
                    f"generate: {side} {number} has {len(ids)} tokens, but the model reads at most {limit}; {remedy}"
                )
            read[side] = ids[-limit:]
        return Request(read["prompt"], read.get("source"), request.index)

    def _limit(self, model: Transformer) -> int:
        return model.spec.max_seq_len

    def _arithmetic(self) -> AbstractContextManager[object]:
        """The precision that the model was trained and evaluated in, unless another is asked for."""
        return arithmetic(next(self.model.parameters()).device, self.precision)

    def _prepare(self, model: Transformer, ready: ExitStack) -> Transformer:
        """The model in the wanted precision, in evaluation mode, with its weights in order."""
        if self.spec.dtype is not None and next(model.parameters()).dtype != getattr(torch, self.spec.dtype):
            model = copy.deepcopy(model).to(getattr(torch, self.spec.dtype))
        ready.enter_context(evaluation_mode(model))
        if self.spec.fast and self.precision != "bf16-mixed":  # which rounds weights by itself
            ready.enter_context(packed(model))
        return model

    def _build_rules(self) -> Callable[[int], Rules]:
        banned = [self._ids(text, "banned") for text in self._texts("banned")]
        start = self._ids(self.spec.forced_start, "forced_start") if self.spec.forced_start else []
        if self.spec.forced_end and self.ends.end is None:
            raise ConfigError("generation.forced_end: this model has no end token")
        return lambda longest: build_rules(
            self.spec,
            banned=banned,
            forced_start=start,
            end=self.ends.end,
            never=self.ends.never,
            max_new_tokens=longest,
        )

    def _texts(self, key: str) -> list[str]:
        texts = getattr(self.spec, key) or []
        if "" in texts:
            raise ConfigError(f"generation.{key}: an empty text is found everywhere; leave it out")
        if texts and self.tokenizer is None:
            raise ConfigError(f"generation.{key}: needs a tokenizer, and this model has none")
        return texts

    def _ids(self, text: str, key: str) -> list[int]:
        if self.tokenizer is None:
            raise ConfigError(f"generation.{key}: needs a tokenizer, and this model has none")
        return self.tokenizer.encode(text)

    def _decode(self, ids: Sequence[int]) -> str:
        if self.tokenizer is None:
            raise ConfigError("generate: this model has no tokenizer; get it with tfexp.load(run)")
        return self.tokenizer.decode(ids)


def ends_of(model: Transformer) -> Ends:
    """The special ids of a model: what it brought along, or its tokenizer's."""
    if model.ends is not None:
        return model.ends
    if model.tokenizer is None:
        return Ends(None, None, None)
    begin, end, pad = (model.tokenizer.special_id(name) for name in ("bos", "eos", "pad"))
    # No target of an encoder-decoder holds them, so nothing was learned of them.
    never = () if model.source_embedding is None else tuple(i for i in (begin, pad) if i is not None)
    return Ends(begin, end, pad, never)
