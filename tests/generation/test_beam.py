"""Beam search against enumeration, against transformers, and against itself one by one."""

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.generation.engines import LibraryEngine, TableEngine, answers, call
from tfexp.errors import ConfigError
from tfexp.generation.session import Request, Session
from tfexp.generation.strategy.beam import Beam
from tfexp.model.ends import Ends
from tfexp.model.transformer import Transformer
from tfexp.registry import check_choice, create

BEGIN, END, PAD = 2, 3, 0
ENDS = Ends(BEGIN, END, PAD, never=(BEGIN, PAD))
WORDS = (1, 4, 5, 6)  # what a target may hold besides its end
V, LONGEST = 7, 3
ALPHAS = [0.0, 0.6, 1.0, 3.0]
LENGTHS = (1, 2, 4, 7, 8)
LETTERS = {"A": 4, "B": 5, "E": END}
# H20: next-token probabilities by prefix; everything else ends. The probability that B A B ends is given.
NEXT = {
    "": {"A": 0.6, "B": 0.4},
    "A": {"E": 0.5, "A": 0.25, "B": 0.25},
    "B": {"A": 0.9, "E": 0.1},
    "BA": {"B": 0.9, "E": 0.1},
}
# that probability, penalty, alpha -> best target and its score as the case states it (the end token counts)
H20 = {
    "early_stop": (0.95, "gnmt", 0.0, "BAB", -1.1783),
    "no_penalty": (0.85, "length", 0.0, "A", -1.2040),
    "penalty": (0.85, "length", 1.0, "BAB", -0.3224),
    "gnmt": (0.85, "gnmt", 1.0, "BAB", math.log(0.4 * 0.9 * 0.9 * 0.85) / (9 / 6)),
}
LIBRARY = list(itertools.product([0.0, 1.0, 2.0, -0.5], ["never", False, True]))
REFUSED = {
    "n_best": ({"n_beams": 2, "n_best": 3}, "generation.n_best: 3 texts need as many beams, got n_beams=2"),
    "none": ({"n_beams": 0}, "generation.n_beams: must be >= 1, got 0"),
    "early": (
        {"early_stopping": "soon"},
        "generation.early_stopping: expected one of True, False, never, got 'soon'; choices: False, True, never.",
    ),
}


def network(seed: int = 0) -> Transformer:
    changes = {"architecture": "encoder_decoder", "vocab_size": V, "position": "rope", "tie_embeddings": False}
    return tiny.model(seed, torch.float64, **changes)


def beam(**keys) -> Beam:
    return create("generation", check_choice("generation", {"name": "beam", **keys}, "generation"), {})


def search(net, sources: list[list[int]], longest: int, name: str = "beam", **keys):
    node = {"name": name, "max_new_tokens": longest, "batch_size": 8, **keys}
    with Session(net, check_choice("generation", node, "generation"), ENDS) as session:
        return session.answer([Request([BEGIN], source) for source in sources])


def source_of(n: int, seed: int) -> list[int]:
    return (tiny.ids(1, n, seed=seed)[0] % V).tolist()


def table_of(p_end: float) -> TableEngine:
    table = {**NEXT, "BAB": {"E": p_end, "A": 1 - p_end}}
    by_ids = {tuple(LETTERS[x] for x in k): {LETTERS[x]: p for x, p in v.items()} for k, v in table.items()}
    return TableEngine(by_ids, {END: 1.0}, V)


def every_target(longest: int) -> Iterator[tuple[int, ...]]:
    """All targets: those that end within `longest` tokens, and those that are cut off there."""
    for n in range(longest):
        yield from ((*words, END) for words in itertools.product(WORDS, repeat=n))
    yield from itertools.product(WORDS, repeat=longest)


def score_of(net: Transformer, source: list[int], target: tuple[int, ...], alpha: float) -> float:
    """log p of a target over its length's penalty; ids that none may hold are banned, not renormalised."""
    tokens = torch.tensor([[BEGIN, *target[:-1]]])
    logp: Tensor = net(torch.tensor([source]), decoder_input_ids=tokens).logits[0].log_softmax(-1)
    return logp[range(len(target)), list(target)].sum().item() / ((5 + len(target)) / 6) ** alpha


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_a_beam_wide_enough_finds_the_best_of_all_targets(seed, alpha):
    net, source = network(seed), source_of(4, seed)
    with torch.no_grad():
        scores = {target: score_of(net, source, target, alpha) for target in every_target(LONGEST)}
    best = max(scores, key=scores.__getitem__)
    strategy = Beam(n_beams=len(WORDS) ** LONGEST, length_penalty=alpha)
    with Session(net, check_choice("generation", {"name": "beam", "max_new_tokens": LONGEST}, "g"), ENDS) as session:
        session.strategy = strategy  # wider than the vocabulary, which config refuses
        ((found,),) = session.answer([Request([BEGIN], source)])
    assert found.ids == [token for token in best if token != END]
    assert found.score == pytest.approx(scores[best], abs=1e-5)  # logits are summed in float32


@pytest.mark.parametrize("n_beams", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_h19_a_batch_equals_its_sources_one_by_one(n_beams, alpha):
    net, keys = network(3), {"n_beams": n_beams, "length_penalty": alpha, "n_best": n_beams}
    sources = [source_of(length, row) for row, length in enumerate(LENGTHS)]
    together = search(net, sources, 9, **keys)
    for size in (1, 2):
        apart = search(net, sources, 9, **keys | {"batch_size": size})
        for one, other in zip(together, apart, strict=True):
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)
    assert len({len(found[0].ids) for found in together}) > 1  # they end at different times


@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_a_beam_of_one(seed):
    net, sources = network(seed), [source_of(6, seed + k) for k in range(5)]
    one = search(net, sources, 9, n_beams=1, length_penalty=0.0)
    greedy = search(net, sources, 9, name="greedy")
    assert [h.ids for (h,) in one] == [h.ids for (h,) in greedy]


@pytest.mark.parametrize(("p_end", "penalty", "alpha", "best", "score"), H20.values(), ids=H20)
@pytest.mark.parametrize(("n_beams", "n_best"), [(2, 1), (2, 2), (3, 1), (5, 5)])
def test_h20_the_search_goes_on_after_the_first_end(p_end, penalty, alpha, best, score, n_beams, n_best):
    strategy = beam(n_beams=n_beams, n_best=n_best, penalty=penalty, length_penalty=alpha)
    (found,), _ = answers(strategy, call(table_of(p_end), [[BEGIN]], end=END))
    assert found[0].ids == [LETTERS[x] for x in best]
    assert found[0].score == pytest.approx(score, abs=1e-4)  # as printed in the case
    assert sum(found[0].logprobs) == pytest.approx(score * penalty_of(penalty, len(best) + 1) ** alpha, abs=5e-4)


def penalty_of(penalty: str, n: int) -> float:
    return (5 + n) / 6 if penalty == "gnmt" else n


def test_h20_stopping_at_the_first_end_would_miss_it():
    (found,), _ = answers(beam(n_beams=1, early_stopping=True), call(table_of(0.95), [[BEGIN]], end=END))
    assert found[0].ids == [LETTERS["A"]]


def test_h20_a_search_ends_only_when_no_length_could_make_up_for_it():
    # The empty target has log 0.501, A is just behind, and A A E wins by its length: log 0.449 / (8 / 6)^3.
    table = {(): {END: 0.501, 4: 0.499}, (4,): {4: 0.9, END: 0.1}}
    for alpha, best in ((3.0, [4, 4]), (0.0, [])):
        one = call(TableEngine(table, {END: 1.0}, V), [[BEGIN]], end=END)
        (found,), _ = answers(beam(n_beams=1, length_penalty=alpha), one)
        assert found[0].ids == best


@pytest.mark.parametrize(("alpha", "early_stopping"), LIBRARY)
def test_the_search_equals_that_of_transformers(alpha, early_stopping):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        **{"vocab_size": 13, "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.5},
        **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    )
    library = transformers.GPT2LMHeadModel(config).eval()
    for prompt in torch.randint(3, 13, (6, 4)):
        out = library.generate(
            prompt[None],
            attention_mask=torch.ones(1, 4, dtype=torch.int64),
            **{"num_beams": 4, "num_return_sequences": 3, "max_new_tokens": 10, "length_penalty": alpha},
            **{"early_stopping": early_stopping, "do_sample": False},
            **{"return_dict_in_generate": True, "output_scores": True},
        )
        strategy = beam(n_beams=4, n_best=3, penalty="length", length_penalty=alpha, early_stopping=early_stopping)
        (found,), _ = answers(strategy, call(LibraryEngine(library), [prompt.tolist()], 10, end=2))
        expected = [row[4:].tolist() for row in out.sequences]
        assert [h.ids for h in found] == [ids[: ids.index(2)] if 2 in ids else ids for ids in expected]
        assert [h.score for h in found] == pytest.approx(out.sequences_scores.tolist(), abs=1e-4)


@pytest.mark.parametrize("n_beams", [1, 3])
@pytest.mark.parametrize("longest", [1, 2, 5])
def test_a_target_is_never_longer_than_it_may_be(longest, n_beams):
    strategy = beam(n_beams=n_beams)
    found, _ = answers(strategy, call(TableEngine({}, {4: 0.6, 5: 0.4}, V), [[BEGIN]] * 2, longest, END))
    assert [h.ids for (h,) in found] == [[4] * longest] * 2
    assert {h.reason for (h,) in found} == {"length"}
    found, _ = answers(strategy, call(TableEngine({}, {END: 1.0}, V), [[BEGIN]] * 2, longest, END))
    assert [h.ids for (h,) in found] == [[], []]


def test_what_is_finished_costs_nothing():
    class TwoKinds(TableEngine):
        """Of two prompts the first ends at once."""

        def logits_after(self, text, origin):
            return super().logits_after(text, origin) + (200.0 if origin == 0 else 0.0) * torch.eye(V)[END]

    engine = TwoKinds({}, {4: 0.9, 5: 0.1}, V)
    found, _ = answers(beam(n_beams=1, length_penalty=0.0), call(engine, [[BEGIN], [BEGIN]], 4, END))
    assert [h.ids for (h,) in found] == [[], [4] * 4]
    assert engine.n_rows == [2, 1, 1, 1]


@pytest.mark.parametrize(("keys", "message"), REFUSED.values(), ids=REFUSED)
def test_a_value_without_meaning_is_refused(keys, message):
    with pytest.raises(ConfigError) as error:
        beam(**keys)
    assert str(error.value) == message


def test_more_beams_than_tokens_are_refused_before_any_work():
    with pytest.raises(ConfigError, match=r"^generation\.n_beams: 8 is more than the vocabulary's 7 tokens$"):
        search(network(), [[4]], 5, n_beams=8)
