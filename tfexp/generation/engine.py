"""A tfexp model as strategies see it: with a cache, or passing whole texts again."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfexp.components.state import StatePlan
from tfexp.model.block import Memory
from tfexp.model.decoding import DecodingState, step
from tfexp.model.transformer import Transformer

PREFILL = 512  # tokens that are read at once: the scores of a long prompt would fill the memory


class ModelEngine:
    """What both engines share: the texts, and which part of each is in sight.

    A decoder whose text outgrows `limit` tokens forgets its oldest `slide` tokens at once, again and again,
    and the positions of what is left are counted anew. What is in sight depends on the length of a text
    alone, never on its batch mates or on how it was read.

    Args:
        model: In evaluation mode; a decoder, or an encoder-decoder.
        memory: Of an encoder-decoder: one row for each prompt.
        limit: The most tokens in sight.
        slide: Tokens that leave at once.
    """

    def __init__(self, model: Transformer, memory: Memory | None, limit: int, slide: int) -> None:
        assert model.spec.vocab_size is not None
        self.model, self.memory, self.limit, self.slide = model, memory, limit, slide
        self.vocab_size = model.spec.vocab_size
        self.texts: list[list[int]] = []
        self.sources: list[int] = []  # which prompt a row came from
        self._hidden: Tensor | None = None
        self._device = next(model.parameters()).device

    @property
    def hidden(self) -> Tensor:
        """(R, T, D) of the latest pass."""
        assert self._hidden is not None
        return self._hidden

    def start(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        self.texts, self.sources = [list(prompt) for prompt in prompts], list(range(len(prompts)))
        return self._read()

    def step(self, tokens: Tensor) -> Tensor:
        slides = False
        for text, token in zip(self.texts, tokens.tolist(), strict=True):
            text.append(token)
            slides |= self._slides(len(text))
        return self._read() if slides else self._add(tokens[:, None])[:, -1]

    def extend(self, tokens: Tensor) -> Tensor:
        n_new = tokens.shape[1]
        if any(self._slides(len(text) + n) for text in self.texts for n in range(1, n_new + 1)):
            return torch.stack([self.step(column) for column in tokens.unbind(1)], dim=1)  # (R, T, V)
        for text, row in zip(self.texts, tokens.tolist(), strict=True):
            text.extend(row)
        self._before_extend()
        return self._add(tokens)

    def forget(self, n: int) -> None:
        if not n:
            return
        slid = any(self._first(len(text)) != self._first(len(text) - n) for text in self.texts)
        for text in self.texts:
            del text[-n:]
        self._take_back(n, slid)

    def keep(self, rows: Tensor) -> None:
        chosen = rows.tolist()
        if chosen == list(range(len(self.texts))):
            return
        sources = [self.sources[row] for row in chosen]
        self.texts = [list(self.texts[row]) for row in chosen]
        self._reorder(rows, sources == self.sources)
        self.sources = sources

    def _first(self, length: int) -> int:
        """The first token in sight of a text of this length."""
        return 0 if length <= self.limit else self.slide * -(-(length - self.limit) // self.slide)

    def _slides(self, length: int) -> bool:
        return length > self.limit and self._first(length) != self._first(length - 1)

    def _in_sight(self) -> tuple[Tensor, Tensor | None]:
        """What is in sight of each row, padded on the left, and its mask; None = no padding."""
        parts = [text[self._first(len(text)) :] for text in self.texts]
        width = max(map(len, parts))
        ids = torch.tensor([[part[0]] * (width - len(part)) + part for part in parts], device=self._device)
        if all(len(part) == width for part in parts):
            return ids, None
        mask = torch.tensor([[False] * (width - len(p)) + [True] * len(p) for p in parts], device=self._device)
        return ids, mask

    def _read(self) -> Tensor:
        """Pass all that is in sight: (R, V)."""
        raise NotImplementedError

    def _add(self, tokens: Tensor) -> Tensor:
        """Pass new tokens, which `texts` hold already: (R, T) -> (R, T, V)."""
        raise NotImplementedError

    def _before_extend(self) -> None:
        pass

    def _take_back(self, n: int, slid: bool) -> None:
        """Forget n tokens, which `texts` have forgotten already; `slid` = other tokens come in sight again."""

    def _reorder(self, rows: Tensor, same_sources: bool) -> None:
        raise NotImplementedError


class RecomputingEngine(ModelEngine):
    """Passes whole texts at every step: slow, and right for every component by construction."""

    def _read(self) -> Tensor:
        logits, self._hidden = self._pass(1)
        return logits[:, -1]

    def _add(self, tokens: Tensor) -> Tensor:
        n_new = tokens.shape[1]
        logits, hidden = self._pass(n_new)
        self._hidden = hidden[:, -n_new:]
        return logits

    def _pass(self, n: int) -> tuple[Tensor, Tensor]:
        """Logits of the last n tokens of each row (R, n, V), hidden states of all (R, T, D)."""
        ids, mask = self._in_sight()
        if self.memory is not None:
            hidden = self.model.decode(ids, self.memory, mask)
            return self.model.head(hidden[:, -n:]).float(), hidden
        scored = torch.zeros_like(ids, dtype=torch.bool)
        scored[:, -n:] = True
        output = self.model(ids, mask, logits_at=scored)
        return output.logits.view(len(ids), n, -1).float(), output.hidden  # (R*n, V) -> (R, n, V)

    def _reorder(self, rows: Tensor, same_sources: bool) -> None:
        if self.memory is not None and not same_sources:
            self.memory = self.memory.rows(rows)


class CachedEngine(ModelEngine):
    """Passes new tokens only; the rest is in the layers' states.

    Args:
        model: As in `ModelEngine`.
        memory: As in `ModelEngine`.
        limit: As in `ModelEngine`.
        slide: As in `ModelEngine`.
        plan: How layers keep what they remember.
    """

    def __init__(self, model: Transformer, memory: Memory | None, limit: int, slide: int, plan: StatePlan) -> None:
        super().__init__(model, memory, limit, slide)
        self.plan = plan
        self.state = DecodingState(model, memory, plan)
        self._fork: DecodingState | None = None

    def _read(self) -> Tensor:
        self.state = DecodingState(self.model, self.state.memory, self.plan)
        ids, mask = self._in_sight()
        masks = [None] * len(ids) if mask is None else mask.split(PREFILL, dim=1)
        hidden, logits = [], torch.empty(0)
        for tokens, real in zip(ids.split(PREFILL, dim=1), masks, strict=False):
            output = step(self.model, tokens, self.state, real, last_only=True)
            hidden.append(output.hidden)
            logits = output.logits
        self._hidden = hidden[0] if len(hidden) == 1 else torch.cat(hidden, dim=1)
        return logits[:, -1].float()

    def _add(self, tokens: Tensor) -> Tensor:
        output = step(self.model, tokens, self.state)
        self._hidden = output.hidden
        return output.logits.float()

    def _before_extend(self) -> None:
        # What cannot be cut back later is kept as it is now.
        self._fork = None if self.state.truncates else self.state.fork()

    def _take_back(self, n: int, slid: bool) -> None:
        if slid:
            self._read()
        elif self._fork is None:
            self.state.truncate(self.state.length - n)
        else:
            n_kept = self.state.length - n - self._fork.length
            self.state, self._fork = self._fork, None
            if n_kept:
                again = torch.tensor([text[-n_kept:] for text in self.texts], device=self._device)
                step(self.model, again, self.state, last_only=True)

    def _reorder(self, rows: Tensor, same_sources: bool) -> None:
        self.state.reorder(rows, same_sources)
        self._fork = None
