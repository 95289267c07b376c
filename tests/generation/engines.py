"""Models as strategies see them, so simple that they are right: a table, and a transformers model passed anew."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from tfexp.generation.base import Call
from tfexp.streams import torch_stream


class TextEngine:
    """Keeps texts and asks `logits_after` for each of them, every time."""

    vocab_size: int

    def __init__(self) -> None:
        self.texts: list[list[int]] = []
        self.origins: list[int] = []  # which prompt a row came from
        self.n_rows: list[int] = []  # of every pass
        self.hidden = torch.empty(0)

    def logits_after(self, text: Sequence[int], origin: int) -> Tensor:
        raise NotImplementedError

    def start(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        self.texts, self.origins = [list(p) for p in prompts], list(range(len(prompts)))
        return self._logits()

    def step(self, tokens: Tensor) -> Tensor:
        for text, token in zip(self.texts, tokens.tolist(), strict=True):
            text.append(token)
        return self._logits()

    def extend(self, tokens: Tensor) -> Tensor:
        return torch.stack([self.step(column) for column in tokens.unbind(1)], dim=1)

    def forget(self, n: int) -> None:
        self.texts = [text[: len(text) - n] for text in self.texts]

    def keep(self, rows: Tensor) -> None:
        self.texts = [list(self.texts[row]) for row in rows.tolist()]
        self.origins = [self.origins[row] for row in rows.tolist()]

    def _logits(self) -> Tensor:
        self.n_rows.append(len(self.texts))
        rows = zip(self.texts, self.origins, strict=True)
        return torch.stack([self.logits_after(text, origin) for text, origin in rows]).float()


class TableEngine(TextEngine):
    """Knows probabilities by what was generated; `n_prompt` tokens come before."""

    def __init__(
        self, table: dict[tuple[int, ...], dict[int, float]], default: dict[int, float], vocab_size: int, n_prompt=1
    ) -> None:
        super().__init__()
        self.table, self.default, self.vocab_size, self.n_prompt = table, default, vocab_size, n_prompt

    def logits_after(self, text, origin):
        p = torch.full((self.vocab_size,), 1e-30, dtype=torch.float64)
        for token, value in self.table.get(tuple(text[self.n_prompt :]), self.default).items():
            p[token] = value
        return p.log()


class LibraryEngine(TextEngine):
    """A transformers decoder, passed anew for every text."""

    def __init__(self, model) -> None:
        super().__init__()
        self.model, self.vocab_size = model, model.config.vocab_size

    def logits_after(self, text, origin):
        with torch.no_grad():
            return self.model(torch.tensor([text])).logits[0, -1]


class Fake(nn.Module):
    """A decoder that says what it is told after a text, misleads everywhere else, and notes what it was shown."""

    def __init__(self, following: Callable[[list[int]], int], tokenizer, max_seq_len: int = 8) -> None:
        super().__init__()
        self.following, self.tokenizer, self.shown = following, tokenizer, []
        self.spec = SimpleNamespace(max_seq_len=max_seq_len, vocab_size=tokenizer.vocab_size, architecture="decoder")
        self.decoder, self.pooling, self.source_embedding = nn.Identity(), None, None
        self.ends, self.precision = None, None
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids, attention_mask=None, logits_at=None):
        self.shown.append(input_ids[0].tolist())
        logits = torch.zeros(*input_ids.shape, self.spec.vocab_size)
        logits[:, :-1, -1] = 100.0
        logits[0, -1, self.following(self.shown[-1])] = 100.0
        return SimpleNamespace(logits=logits[logits_at], hidden=logits)


def call(engine, prompts, max_new_tokens=9, end=None, rules=lambda scores, rows: scores, seed=0, **more) -> Call:
    generators = [torch_stream(seed, "generate", k) for k in range(len(prompts))]
    return Call(
        engine, prompts, generators, rules, end, max_new_tokens, text=lambda ids: " ".join(map(str, ids)), **more
    )


def answers(strategy, one: Call):
    """What a strategy returns, and the tokens that it let out on the way."""
    running, tokens = strategy.run(one), []
    while True:
        try:
            tokens.append(next(running))
        except StopIteration as finished:
            return finished.value, tokens
