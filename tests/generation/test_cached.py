"""Generation with a cache against passes over everything, for every combination that the registry allows."""

import itertools

import pytest
import torch

from tests import tiny
from tfexp.components.state import StatePlan
from tfexp.errors import ConfigError
from tfexp.generation.engine import CachedEngine, RecomputingEngine
from tfexp.generation.session import Request, Session
from tfexp.model.ends import Ends
from tfexp.registry import check_choice, names


def allowed(attention: str, position: str, placement: str) -> bool:
    try:
        tiny.spec(attention=attention, position=position, norm_placement=placement).check_compatible()
    except ConfigError:
        return False
    return True


SLOTS = ("attention", "position", "norm_placement")
COMBINATIONS = [parts for parts in itertools.product(*map(names, SLOTS)) if allowed(*parts)]
ENDS = Ends(1, 2, 0)
PROMPTS = [[3, 4, 5], [6], [7, 8, 9, 10, 11]]
SOURCES = [[5, 6, 7, 2], [8, 2], [9, 10, 2]]
STRATEGIES = {
    "greedy": {},
    "sample": {"temperature": 1.5, "top_p": 0.9},
    "beam": {"n_beams": 3, "n_best": 2},
}
ATOL = 1e-5  # what is asked for; float64 inside leaves the rounding of float32 logits
WINDOWED = {"window": {"attention": {"name": "softmax", "window": 3}}}


def model(attention="softmax", position="rope", placement="pre", **changes):
    parts = {"attention": attention, "position": position, "norm_placement": placement, "max_seq_len": 16}
    return tiny.model(**{**parts, **changes})


def written(net, strategy: str, cache: str, batch_size: int = 8, fast: bool = False):
    """The tokens of every hypothesis of the three requests."""
    sided = net.source_embedding is not None
    requests = [
        Request([ENDS.begin] if sided else prompt, source if sided else None, k)
        for k, (prompt, source) in enumerate(zip(PROMPTS, SOURCES, strict=True))
    ]
    keys = {"max_new_tokens": 9, "cache": cache, "batch_size": batch_size, "fast": fast, **STRATEGIES[strategy]}
    choice = check_choice("generation", {"name": strategy, **keys}, "generation")
    with Session(net, choice, ENDS) as session:
        return [[h.ids for h in found] for found in session.answer(requests)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("attention", "position", "placement"), COMBINATIONS, ids=map("-".join, COMBINATIONS))
def test_h21_a_cache_changes_no_token(attention, position, placement, strategy):
    net = model(attention, position, placement)
    expected = written(net, strategy, "none")
    assert written(net, strategy, "static") == expected
    assert written(net, strategy, "growing", batch_size=1) == expected  # nor do batch mates


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("position", names("position"))
def test_h21_an_encoder_decoder_says_the_same_with_a_cache(position, strategy):
    net = model(position=position, architecture="encoder_decoder")
    expected = written(net, strategy, "none")
    assert written(net, strategy, "static") == expected
    assert written(net, strategy, "growing", batch_size=1) == expected


@pytest.mark.parametrize("changes", WINDOWED.values(), ids=WINDOWED)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_h21_options_of_attention(changes, strategy):
    net = model(**changes)
    assert written(net, strategy, "static") == written(net, strategy, "none")


@pytest.mark.parametrize(("attention", "position", "placement"), COMBINATIONS, ids=map("-".join, COMBINATIONS))
def test_h21_logits_are_those_of_whole_passes_at_every_step(attention, position, placement):
    # Past the longest input, too: texts of up to 5 + 13 tokens slide through 16.
    net = model(attention, position, placement)
    engines = [RecomputingEngine(net, None, 16, 2), CachedEngine(net, None, 16, 2, StatePlan("static", 4))]
    with torch.no_grad():
        logits = [engine.start(PROMPTS) for engine in engines]
        for n in range(13):
            tokens = logits[0].argmax(dim=-1)
            if n == 4:  # rows leave, and one comes twice
                for engine in engines:
                    engine.keep(torch.tensor([2, 0, 0]))
                tokens = tokens[[2, 0, 0]]
            if n == 6:  # several at once, two of them taken back
                both = [engine.extend(tokens[:, None].expand(-1, 3)) for engine in engines]
                tiny.close(both[1], both[0], ATOL)
                for engine in engines:
                    engine.forget(2)
                logits = [extended[:, 0] for extended in both]
            else:
                logits = [engine.step(tokens) for engine in engines]
            tiny.close(logits[1], logits[0], ATOL)


def test_some_combinations_are_not_allowed():
    assert allowed("softmax", "alibi", "pre")
    assert not allowed("linear", "alibi", "pre")


def test_h21_a_stale_cache_would_be_seen():
    net = model(position="learned")
    engines = [RecomputingEngine(net, None, 16, 1), CachedEngine(net, None, 16, 1, StatePlan())]
    with torch.no_grad():
        for engine in engines:
            engine.start([[3, 4, 5]])
        engines[1].state.truncate(2)
        with pytest.raises(AssertionError):
            tiny.close(*(engine.step(torch.tensor([6])) for engine in engines), ATOL)
