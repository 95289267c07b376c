"""Beam search over an encoder-decoder against enumeration of every target, and against itself one by one."""

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests import tiny
from tfexp.components.base import AttentionContext
from tfexp.generation.translate import Ends, _beam, translate
from tfexp.model.block import Memory
from tfexp.model.transformer import Transformer

ENDS = Ends(begin=2, end=3, pad=0)
WORDS = (1, 4, 5, 6)  # what a target may hold besides its end
V, LONGEST = 7, 3
ALPHAS = [0.0, 0.6, 1.0, 3.0]
LENGTHS = (1, 2, 4, 7, 8)
# H20: next-token probabilities by prefix; everything else ends. The probability that B A B ends is given.
NEXT = {
    "": {"A": 0.6, "B": 0.4},
    "A": {"E": 0.5, "A": 0.25, "B": 0.25},
    "B": {"A": 0.9, "E": 0.1},
    "BA": {"B": 0.9, "E": 0.1},
}
# that probability, alpha -> best target and its score, log p / ((5 + n) / 6)^alpha with the end in n
H20 = {
    "early_stop": (0.95, 0.0, "BAB", math.log(0.4 * 0.9 * 0.9 * 0.95)),  # -1.1783 beats A E, -1.2040
    "no_penalty": (0.85, 0.0, "A", math.log(0.6 * 0.5)),
    "penalty": (0.85, 1.0, "BAB", math.log(0.4 * 0.9 * 0.9 * 0.85) / (9 / 6)),
}
LETTERS = {"A": 4, "B": 5, "E": ENDS.end}


def network(seed: int = 0, dtype: torch.dtype = torch.float64) -> Transformer:
    return tiny.model(seed, dtype, architecture="encoder_decoder", vocab_size=V, position="rope", tie_embeddings=False)


class Table:
    """A model that knows probabilities by prefix, whatever the source."""

    def __init__(self, table: dict[tuple[int, ...], dict[int, float]], default: dict[int, float]) -> None:
        self.table, self.default = table, default

    def encode(self, source: Tensor, mask: Tensor | None) -> Memory:
        return Memory(torch.zeros(len(source), 1, 1), AttentionContext())

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        rows = torch.full((len(tokens), 1, V), 1e-30)
        for row, prefix in zip(rows, tokens[:, 1:].tolist(), strict=True):
            for token, p in self.table.get(tuple(prefix), self.default).items():
                row[0, token] = p
        return rows.log()

    def head(self, hidden: Tensor) -> Tensor:
        return hidden


def table_of(p_end: float) -> Table:
    table = {**NEXT, "BAB": {"E": p_end, "A": 1 - p_end}}
    by_ids = {tuple(LETTERS[x] for x in k): {LETTERS[x]: p for x, p in v.items()} for k, v in table.items()}
    return Table(by_ids, {ENDS.end: 1.0})


def every_target(longest: int) -> Iterator[tuple[int, ...]]:
    """All targets: those that end within `longest` tokens, and those that are cut off there."""
    for n in range(longest):
        yield from ((*words, ENDS.end) for words in itertools.product(WORDS, repeat=n))
    yield from itertools.product(WORDS, repeat=longest)


def score_of(net: Transformer, source: Tensor, target: tuple[int, ...], alpha: float) -> float:
    """log p of a target, without the tokens that none may hold, over its length's penalty."""
    tokens = torch.tensor([[ENDS.begin, *target[:-1]]])
    logits = net(source, decoder_input_ids=tokens).logits[0]
    logits[:, [ENDS.begin, ENDS.pad]] = -torch.inf
    logp = logits.log_softmax(-1)[range(len(target)), list(target)].sum().item()
    return logp / ((5 + len(target)) / 6) ** alpha


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_a_beam_wide_enough_finds_the_best_of_all_targets(seed, alpha):
    net, source = network(seed), tiny.ids(1, 4, seed=seed) % V
    with torch.no_grad():
        scores = {target: score_of(net, source, target, alpha) for target in every_target(LONGEST)}
    best = max(scores, key=scores.__getitem__)
    found = translate(net, source, None, ENDS, LONGEST, len(WORDS) ** LONGEST, alpha)
    assert found == [[token for token in best if token != ENDS.end]]


@pytest.mark.parametrize("seed", range(6))
def test_a_wider_beam_is_never_worse(seed):
    net, source = network(seed), tiny.ids(1, 4, seed=seed) % V
    with torch.no_grad():
        found = [translate(net, source, None, ENDS, LONGEST, n, 0.0)[0] for n in (1, 64)]
        one, all_ = (score_of(net, source, (*t, ENDS.end) if len(t) < LONGEST else tuple(t), 0.0) for t in found)
    assert all_ >= one


@pytest.mark.parametrize("n_beams", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_h19_a_batch_equals_its_sources_one_by_one(n_beams, alpha):
    net = network(3)
    source, mask = torch.zeros(5, 8, dtype=torch.int64), torch.zeros(5, 8, dtype=torch.bool)
    for row, length in enumerate(LENGTHS):
        source[row, :length], mask[row, :length] = tiny.ids(length, seed=row) % V, True
    together = translate(net, source, mask, ENDS, 9, n_beams, alpha)
    alone = [
        translate(net, source[row : row + 1, :length], None, ENDS, 9, n_beams, alpha)[0]
        for row, length in enumerate(LENGTHS)
    ]
    assert together == alone
    pairs = [translate(net, source[k : k + 2], mask[k : k + 2], ENDS, 9, n_beams, alpha) for k in (0, 2, 4)]
    assert together == [target for pair in pairs for target in pair]
    assert len({len(target) for target in together}) > 1  # they end at different times


@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_a_beam_of_one(seed):
    net, source = network(seed), tiny.ids(5, 6, seed=seed) % V
    with torch.no_grad():
        beam = _beam(net, net.encode(source, None), ENDS, 9, 1, 0.0)
    assert translate(net, source, None, ENDS, 9) == beam


def test_greedy_takes_the_most_probable_token_at_each_place():
    net, source = network(1), tiny.ids(1, 4) % V
    (target,) = translate(net, source, None, ENDS, 9)
    tokens = torch.tensor([[ENDS.begin, *target]])
    with torch.no_grad():
        logits = net(source, decoder_input_ids=tokens).logits[0]
    logits[:, [ENDS.begin, ENDS.pad]] = -torch.inf
    expected = [*target, ENDS.end] if len(target) < 9 else target
    assert logits.argmax(-1).tolist()[: len(expected)] == expected


@pytest.mark.parametrize(("p_end", "alpha", "best", "score"), H20.values(), ids=H20)
@pytest.mark.parametrize("n_beams", [2, 3, 5])
def test_h20_the_search_goes_on_after_the_first_end(p_end, alpha, best, score, n_beams):
    source = torch.zeros(1, 1, dtype=torch.int64)
    (found,) = translate(table_of(p_end), source, None, ENDS, 9, n_beams, alpha)
    assert found == [LETTERS[x] for x in best]
    p = math.prod(NEXT.get(best[:k], {"E": p_end})[x] for k, x in enumerate([*best, "E"]))
    assert score == pytest.approx(math.log(p) / ((5 + len(best) + 1) / 6) ** alpha)
    other = math.log(0.3) / (7 / 6) ** alpha if best == "BAB" else math.log(0.4 * 0.9 * 0.9 * p_end)
    assert score > other


def test_h20_a_search_ends_only_when_no_length_could_make_up_for_it():
    # The empty target has log 0.501, A is just behind, and A A E wins by its length: log 0.449 / (8 / 6)^3.
    table = Table({(): {ENDS.end: 0.501, 4: 0.499}, (4,): {4: 0.9, ENDS.end: 0.1}}, {ENDS.end: 1.0})
    memory = table.encode(torch.zeros(1, 1, dtype=torch.int64), None)
    assert _beam(table, memory, ENDS, 9, 1, 3.0) == [[4, 4]]
    assert _beam(table, memory, ENDS, 9, 1, 0.0) == [[]]


@pytest.mark.parametrize("n_beams", [1, 3])
@pytest.mark.parametrize("longest", [1, 2, 5])
def test_a_target_is_never_longer_than_it_may_be(longest, n_beams):
    never = Table({}, {4: 0.6, 5: 0.4})
    source = torch.zeros(2, 1, dtype=torch.int64)
    assert translate(never, source, None, ENDS, longest, n_beams) == [[4] * longest] * 2
    at_once = Table({}, {ENDS.end: 1.0})
    assert translate(at_once, source, None, ENDS, longest, n_beams) == [[], []]


@pytest.mark.parametrize("n_beams", [1, 3])
def test_no_target_holds_a_begin_or_a_pad(n_beams):
    wrong = Table({(): {ENDS.begin: 0.6, 4: 0.4}, (4,): {ENDS.pad: 0.8, ENDS.end: 0.2}}, {ENDS.end: 1.0})
    assert translate(wrong, torch.zeros(1, 1, dtype=torch.int64), None, ENDS, 5, n_beams) == [[4]]


def test_sources_share_nothing_but_time():
    class ByRow(Table):
        """One source ends at once, the other never."""

        def encode(self, source, mask):
            return Memory(source[:, :, None].double(), AttentionContext())

        def decode(self, tokens, memory):
            rows = super().decode(tokens, memory)
            rows[memory.states[:, 0, 0] == 1, 0, ENDS.end] = 20.0
            return rows

    source = torch.tensor([[0], [1], [0]])
    for n_beams in (1, 2):
        found = translate(ByRow({}, {4: 0.9, 5: 0.1}), source, None, ENDS, 4, n_beams)
        assert found == [[4] * 4, [], [4] * 4]
