"""Ranking samples: by log-probability, and by agreement."""

import math

import pytest
from sacrebleu.metrics import BLEU, CHRF

from tests.generation.engines import TableEngine, answers, call
from tfexp.errors import ConfigError
from tfexp.registry import check_choice, create

TABLE = {(): {3: 0.5, 4: 0.3, 5: 0.2}, (3,): {2: 0.6, 4: 0.4}}
SCORERS = {"chrf": CHRF(), "bleu": BLEU(effective_order=True)}


def strategy(name: str, **keys):
    return create("generation", check_choice("generation", {"name": name, **keys}, "generation"), {})


def ranked(name: str, n_prompts: int = 2, **keys):
    table = TableEngine(TABLE, {2: 0.9, 5: 0.1}, 7)
    return answers(strategy(name, **keys), call(table, [[1]] * n_prompts, 5, end=2))[0]


@pytest.mark.parametrize("by", ["mean", "sum"])
def test_the_best_of_several_samples_comes_first(by):
    for found in ranked("best_of", n=12, by=by):
        assert len(found) == 12
        scores = [sum(h.logprobs) / (len(h.logprobs) if by == "mean" else 1) for h in found]
        assert [h.score for h in found] == scores == sorted(scores, reverse=True)
        assert len({tuple(h.ids) for h in found}) > 1


def test_the_two_rankings_differ():
    found = {by: [h.ids for h in ranked("best_of", 1, n=12, by=by)[0]] for by in ("mean", "sum")}
    assert found["mean"] != found["sum"]


@pytest.mark.parametrize("metric", SCORERS)
def test_the_sample_that_others_agree_with_comes_first(metric):
    for found in ranked("mbr", n=8, metric=metric):
        texts = [" ".join(map(str, h.ids)) for h in found]
        for k, h in enumerate(found):
            others = [SCORERS[metric].sentence_score(texts[k], [t]).score for j, t in enumerate(texts) if j != k]
            assert h.score == pytest.approx(math.fsum(others) / 7)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize("name", ["best_of", "mbr"])
def test_samples_of_a_request_do_not_depend_on_the_others(name):
    together, alone = ranked(name, 3, n=6), ranked(name, 1, n=6)
    assert [h.ids for h in together[0]] == [h.ids for h in alone[0]]
    assert [h.ids for h in together[1]] != [h.ids for h in together[0]]


@pytest.mark.parametrize("name", ["best_of", "mbr"])
def test_sampling_keys_are_checked(name):
    with pytest.raises(ConfigError, match=r"^generation\.top_k: 50 is more than the vocabulary's 7 tokens$"):
        strategy(name, top_k=50).check(7)
