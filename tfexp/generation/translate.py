"""The most probable target of a source: beam search over an encoder-decoder, many sources at once."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tfexp.model.block import Memory
from tfexp.model.transformer import Transformer


@dataclass(frozen=True)
class Ends:
    """Ids that begin, end and fill a target."""

    begin: int
    end: int
    pad: int


@torch.no_grad()
def translate(
    model: Transformer,
    source: Tensor,
    mask: Tensor | None,
    ends: Ends,
    max_tokens: int,
    n_beams: int = 1,
    length_penalty: float = 0.6,
) -> list[list[int]]:
    """Decode a batch of sources; with one beam this is greedy search.

    A finished hypothesis of n tokens, its end included, scores sum log p / ((5 + n) / 6)^length_penalty;
    a source is done when no open hypothesis can still beat its worst kept one.

    Args:
        model: An encoder-decoder in evaluation mode.
        source: (B, S) ids.
        mask: (B, S) bool, or None.
        ends: Special ids.
        max_tokens: Longest target, its end included.
        n_beams: Hypotheses kept for each source.
        length_penalty: alpha; 0 = none.

    Returns:
        For each source the ids of its best target, without begin and end.

    Source: Wu et al., 2016, arXiv:1609.08144, section 7 (without coverage penalty).
    """
    memory = model.encode(source, mask)
    if n_beams == 1:
        return _greedy(model, memory, ends, max_tokens)
    return _beam(model, memory, ends, max_tokens, n_beams, length_penalty)


def _greedy(model: Transformer, memory: Memory, ends: Ends, max_tokens: int) -> list[list[int]]:
    n = len(memory.states)
    tokens = torch.full((n, 1), ends.begin, dtype=torch.int64, device=memory.states.device)
    found: list[list[int]] = [[] for _ in range(n)]
    active = torch.arange(n, device=tokens.device)
    for _ in range(max_tokens):
        following = _last_logits(model, tokens, memory, ends).argmax(dim=-1)
        for row, token in zip(active.tolist(), following.tolist(), strict=True):
            if token != ends.end:
                found[row].append(token)
        going = following != ends.end
        if not going.any():
            break
        tokens = torch.cat((tokens, following[:, None]), dim=1)[going]  # (B', t + 1)
        active, memory = active[going], memory.rows(going)
    return found


def _beam(
    model: Transformer, memory: Memory, ends: Ends, max_tokens: int, n_beams: int, alpha: float
) -> list[list[int]]:
    n, device = len(memory.states), memory.states.device
    memory = memory.rows(torch.arange(n, device=device).repeat_interleave(n_beams))
    tokens = torch.full((n * n_beams, 1), ends.begin, dtype=torch.int64, device=device)
    scores = torch.full((n, n_beams), -torch.inf, device=device)
    scores[:, 0] = 0.0  # all beams start alike: one of them is enough
    active = list(range(n))
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in range(n)]
    for length in range(1, max_tokens + 1):
        logp = _last_logits(model, tokens, memory, ends).log_softmax(dim=-1)
        n_words = logp.shape[-1]
        total = (scores.view(-1, 1) + logp).view(len(active), n_beams * n_words)
        best, places = total.topk(2 * n_beams, dim=1)  # enough even if half of them are ends
        keep_rows, keep_tokens, keep_scores, keep_active = [], [], [], []
        for i, row in enumerate(active):
            chosen = []
            for score, place in zip(best[i].tolist(), places[i].tolist(), strict=True):
                beam, token = divmod(place, n_words)
                if token == ends.end:
                    if len(chosen) < n_beams:
                        ids = tokens[i * n_beams + beam, 1:].tolist()
                        finished[row].append((score / _penalty(length, alpha), ids))
                elif len(chosen) < n_beams:
                    chosen.append((score, i * n_beams + beam, token))
            finished[row] = sorted(finished[row], key=lambda h: -h[0])[:n_beams]
            if length == max_tokens:
                opened = [(s / _penalty(length, alpha), [*tokens[r, 1:].tolist(), t]) for s, r, t in chosen]
                finished[row] = sorted(finished[row] + opened, key=lambda h: -h[0])[:n_beams]
            elif not _done(finished[row], chosen[0][0], n_beams, max_tokens, alpha):
                keep_active.append(row)
                keep_scores.append([c[0] for c in chosen])
                keep_rows += [c[1] for c in chosen]
                keep_tokens += [c[2] for c in chosen]
        if not keep_active or length == max_tokens:
            break
        order = torch.tensor(keep_rows, device=device)
        tokens = torch.cat((tokens[order], torch.tensor(keep_tokens, device=device)[:, None]), dim=1)
        memory, scores, active = memory.rows(order), torch.tensor(keep_scores, device=device), keep_active
    return [hypotheses[0][1] for hypotheses in finished]


def _done(finished: list[tuple[float, list[int]]], best_open: float, n_beams: int, longest: int, alpha: float) -> bool:
    """Whether no open hypothesis can end better than the worst of enough finished ones."""
    return len(finished) >= n_beams and best_open / _penalty(longest, alpha) <= finished[-1][0]


def _penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def _last_logits(model: Transformer, tokens: Tensor, memory: Memory, ends: Ends) -> Tensor:
    logits = model.head(model.decode(tokens, memory)[:, -1]).float()  # (B, V)
    logits[:, [ends.begin, ends.pad]] = -torch.inf  # no target holds them
    return logits
