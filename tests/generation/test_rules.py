"""Rules against transformers' processors, and what happens where they leave nothing to say."""

import pytest
import torch

from tests.generation.engines import TableEngine, answers, call
from tests.tiny import close, normal
from tfexp.generation.base import Row
from tfexp.generation.rules import build_rules
from tfexp.generation.spec import GenerationSpec
from tfexp.generation.strategy.greedy import Greedy

V, END, INF = 9, 2, float("inf")
ROWS = [Row(0, [3, 4, 5], [3, 4]), Row(1, [6], []), Row(2, [1, 7, 1, 7], [1, 7, 1])]
# keys -> the library's processor and its arguments, for a decoder
LIBRARY = {
    "repetition": ({"repetition_penalty": 1.7}, "RepetitionPenaltyLogitsProcessor", {"penalty": 1.7}),
    "repetition_below_1": ({"repetition_penalty": 0.5}, "RepetitionPenaltyLogitsProcessor", {"penalty": 0.5}),
    **{
        f"no_repeat_{n}": ({"no_repeat_ngram": n}, "NoRepeatNGramLogitsProcessor", {"ngram_size": n})
        for n in (1, 2, 3, 4)
    },
}
BANNED = {"one": [[4]], "several": [[4], [3, 4, 8], [1, 7]], "longer_than_the_text": [[6, 6, 6, 6, 6, 6, 6, 6, 6]]}


def rules(banned=(), forced_start=(), end=END, never=(), max_new_tokens=9, **keys):
    return build_rules(GenerationSpec(**keys), banned, forced_start, end, never, max_new_tokens)


def scores(seed: int = 0):
    return normal(len(ROWS), V, seed=seed, dtype=torch.float32) * 3


def processed(processor, given):
    """The library takes rows of one length: one by one."""
    lines = zip(ROWS, given, strict=True)
    return torch.cat([processor(torch.tensor([row.ids]), line[None].clone()) for row, line in lines])


@pytest.mark.parametrize(("keys", "name", "arguments"), LIBRARY.values(), ids=LIBRARY)
def test_penalties_and_ngrams_are_those_of_transformers(keys, name, arguments):
    transformers = pytest.importorskip("transformers")
    for seed in range(3):
        expected = processed(getattr(transformers, name)(**arguments), scores(seed))
        close(rules(**keys)(scores(seed), ROWS), expected, 0.0)


@pytest.mark.parametrize("banned", BANNED.values(), ids=BANNED)
def test_banned_sequences_are_those_of_transformers(banned):
    transformers = pytest.importorskip("transformers")
    processor = transformers.NoBadWordsLogitsProcessor(banned, eos_token_id=END)
    close(rules(banned)(scores(), ROWS), processed(processor, scores()), 0.0)


def test_rules_come_in_the_order_of_transformers():
    transformers = pytest.importorskip("transformers")
    expected = scores()
    for name, arguments in (
        ("RepetitionPenaltyLogitsProcessor", {"penalty": 1.5}),
        ("NoRepeatNGramLogitsProcessor", {"ngram_size": 2}),
        ("NoBadWordsLogitsProcessor", {"bad_words_ids": [[8]], "eos_token_id": END}),
    ):
        expected = processed(getattr(transformers, name)(**arguments), expected)
    close(rules([[8]], repetition_penalty=1.5, no_repeat_ngram=2)(scores(), ROWS), expected, 0.0)


def test_frequency_and_presence_count_what_was_generated():
    expected = scores()
    for k, row in enumerate(ROWS):
        for token in range(V):
            count = row.new.count(token)
            expected[k, token] -= 0.5 * count + 0.25 * (count > 0)
    close(rules(frequency_penalty=0.5, presence_penalty=0.25)(scores(), ROWS), expected, 1e-6)


def test_a_text_does_not_end_before_its_least_length():
    found = rules(min_new_tokens=2)(scores(), ROWS)
    assert (found[:, END] == -INF).tolist() == [False, True, False]
    close(found[:, 3:], scores()[:, 3:], 0.0)


def test_forced_tokens_come_first_and_last():
    table = TableEngine({}, {4: 0.9, END: 0.1}, V)
    forced = rules(forced_start=[7, 8], forced_end=True, max_new_tokens=5)
    ((found,),), _ = answers(Greedy(), call(table, [[1]], 5, END, forced))
    assert (found.ids, found.reason) == ([7, 8, 4, 4], "end")


def test_tokens_that_are_never_said():
    found = rules(never=(0, 1))(scores(), ROWS)
    assert (found[:, :2] == -INF).all()
    close(found[:, 2:], scores()[:, 2:], 0.0)


@pytest.mark.parametrize("end", [END, None])
def test_where_nothing_may_be_said_the_text_ends_or_the_rules_yield(end):
    everything = [[token] for token in range(V)]
    found = rules(everything, end=end)(scores(), ROWS)
    if end is None:
        close(found, scores(), 0.0)
    else:
        assert found.argmax(dim=-1).tolist() == [END] * len(ROWS)
    assert torch.isfinite(found.softmax(dim=-1)).all()


def test_without_rules_nothing_is_touched():
    given = scores()
    assert rules()(given, ROWS) is given
