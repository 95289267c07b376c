"""Diverse beam search: one group is beam search, and groups avoid each other."""

import pytest
import torch

from tests import tiny
from tests.generation.engines import TableEngine, answers, call
from tfexp.errors import ConfigError
from tfexp.generation.engine import RecomputingEngine
from tfexp.registry import check_choice, create

V, END = 6, 2
FLAT = {(): {3: 0.4, 4: 0.35, 5: 0.25}, (3,): {END: 0.9, 4: 0.1}, (4,): {END: 0.9, 3: 0.1}, (5,): {END: 1.0}}
REFUSED = {
    "groups": ({"n_beams": 4, "n_groups": 3}, "generation.n_groups: must divide n_beams=4, got 3"),
    "best": ({"n_beams": 4, "n_best": 5}, "generation.n_best: 5 texts need as many beams, got n_beams=4"),
}


def strategy(name: str = "diverse_beam", **keys):
    return create("generation", check_choice("generation", {"name": name, **keys}, "generation"), {})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("diversity", [0.0, 0.7])
def test_one_group_is_beam_search(seed, diversity):
    net = tiny.model(seed, position="rope")
    prompts = [[3, 4], [5, 6, 7]]
    with torch.no_grad():
        plain, _ = answers(strategy("beam", n_best=3), call(RecomputingEngine(net, None, 16, 1), prompts, 6, END))
        one = strategy(n_groups=1, diversity=diversity, n_best=3)
        grouped, _ = answers(one, call(RecomputingEngine(net, None, 16, 1), prompts, 6, END))
    assert [[h.ids for h in found] for found in grouped] == [[h.ids for h in found] for found in plain]
    assert [h.score for f in grouped for h in f] == pytest.approx([h.score for f in plain for h in f], abs=1e-5)


@pytest.mark.parametrize(("diversity", "found"), [(0.0, [[3], [3]]), (1.0, [[3], [4]])])
def test_a_group_prefers_what_earlier_groups_did_not_say(diversity, found):
    one = strategy(n_beams=2, n_groups=2, diversity=diversity, n_best=2, length_penalty=0.0)
    ((first, second),), _ = answers(one, call(TableEngine(FLAT, {END: 1.0}, V), [[1]], 4, END))
    assert [first.ids, second.ids] == found
    # The score is the text's own, whatever diversity did to the order.
    assert second.score == pytest.approx(sum(second.logprobs), abs=1e-6)


def test_requests_do_not_see_each_other():
    net, keys = tiny.model(1, position="rope"), {"n_beams": 4, "n_groups": 2, "n_best": 4}
    prompts = [[3, 4], [5], [6, 7, 8]]
    with torch.no_grad():
        together, _ = answers(strategy(**keys), call(RecomputingEngine(net, None, 16, 1), prompts, 6, END))
        for prompt, found in zip(prompts, together, strict=True):
            (alone,), _ = answers(strategy(**keys), call(RecomputingEngine(net, None, 16, 1), [prompt], 6, END))
            assert [h.ids for h in alone] == [h.ids for h in found]


@pytest.mark.parametrize(("keys", "message"), REFUSED.values(), ids=REFUSED)
def test_a_value_without_meaning_is_refused(keys, message):
    with pytest.raises(ConfigError) as error:
        strategy(**keys)
    assert str(error.value) == message


def test_more_beams_than_tokens_are_refused():
    with pytest.raises(ConfigError, match=r"^generation\.n_beams: 8 is more than the vocabulary's 6 tokens$"):
        strategy(n_beams=8).check(V)
