"""Next-token prediction on documents, pairs and tagged tokens: what is scored, and what is asked of the data."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from tests.prepared import prepared, spec
from tests.tasks.cases import CASES, Fixed
from tests.tiny import close, normal
from tfexp.batch import IGNORE, Batch
from tfexp.data.corpus import Pair, Tagged
from tfexp.data.floors import ngram_entropies
from tfexp.errors import ConfigError
from tfexp.tasks.base import EvalPart, is_better
from tfexp.tasks.next_token import NextToken
from tfexp.training.evaluate import evaluate

PAIRS = [Pair("a b", "b a"), Pair("c", "c c c"), Pair("a", "")]
# What is scored of two rows, and which of it is wrong -> whole rows that are right, of those with a label.
ROWS = {
    "all_right": ([[1, 2, IGNORE], [IGNORE, 3, IGNORE]], [], 2, 2),
    "one_wrong": ([[1, 2, IGNORE], [IGNORE, 3, IGNORE]], [(0, 1)], 1, 2),
    "two_wrong_in_a_row": ([[1, 2, 3], [4, 4, 4]], [(1, 0), (1, 2)], 1, 2),
    "a_row_without_labels": ([[1, 2, 3], [IGNORE] * 3], [], 1, 1),
    "no_labels": ([[IGNORE] * 3, [IGNORE] * 3], [], 0, 0),
}
# Kind of row, rows, length, every prediction right or wrong -> right rows and tokens of those asked for; by hand.
LONG = [Pair("a a a a", "b"), Pair("a", "b"), Pair("a a", "b b")]  # 5 + <eos>, 2 + <eos>, 4 + <eos>
CUT = {
    "nothing_cut": (LONG, 6, True, (3, 3), (7, 7)),
    "an_end": (LONG, 5, True, (2, 3), (6, 7)),
    "a_whole_answer": (LONG, 4, True, (1, 3), (4, 7)),
    "nothing_right": (LONG, 4, False, (0, 3), (0, 7)),
    "tags": ([Tagged("a b a b", "a _ b a"), Tagged("a b", "_ a")], 2, True, (1, 2), (2, 4)),
    "tags_that_are_all_cut": ([Tagged("a b a b", "_ _ b a"), Tagged("a b", "_ a")], 2, True, (1, 2), (1, 3)),
}
BETTER = {
    "loss": ("val/loss", 1.0, 2.0),
    "perplexity": ("perplexity", 1.0, 2.0),
    "accuracy": ("val/accuracy", 0.5, 0.4),
    "bleu": ("val/bleu", 30.0, 20.0),
    "bleu_of_a_subset": ("val/bleu_subset", 30.0, 20.0),
    "chrf_of_a_subset": ("chrf_subset", 30.0, 20.0),
    "loss_at_twice_the_length": ("val/loss_2x", 1.0, 2.0),
}


@pytest.mark.parametrize(("labels", "wrong", "right", "rows"), ROWS.values(), ids=ROWS)
def test_exact_match_counts_whole_rows(labels, wrong, right, rows):
    labels = torch.tensor(labels)
    logits = torch.nn.functional.one_hot(labels.clamp(min=0), 6).double() * 9
    for row, place in wrong:
        logits[row, place] = logits[row, place].roll(1)
    at = labels != IGNORE
    batch = Batch(torch.zeros_like(labels), labels, logits_at=at)
    with torch.no_grad():
        sums = NextToken().score(Fixed(logits[at]), batch)
    assert (sums["rows_correct"], sums["rows"], sums["count"]) == (right, rows, at.sum())
    metrics = NextToken().metrics(sums, 0)
    assert metrics["exact_match"] == right / max(rows, 1)
    assert metrics["accuracy"] == (int(at.sum()) - len(wrong)) / max(int(at.sum()), 1)


@pytest.mark.parametrize(("rows", "seq_len", "knows", "right", "tokens"), CUT.values(), ids=CUT)
@pytest.mark.parametrize("batch_tokens", [4, 8192])
def test_what_does_not_fit_counts_as_wrong(monkeypatch, rows, seq_len, knows, right, tokens, batch_tokens):
    monkeypatch.setattr("tfexp.tasks.next_token.EVAL_TOKENS", batch_tokens)
    data, task = prepared(rows), NextToken()
    batches = task.eval_batches(data, "val", spec(seq_len=seq_len, overlong="drop"))
    totals = {}
    for k in range(len(batches)):
        labels = batches[k].scored_labels()
        logits = torch.nn.functional.one_hot(labels if knows else labels - 1, data.tokenizer.vocab_size).double()
        with torch.no_grad():
            for name, value in task.score(Fixed(logits), batches[k]).items():
                totals[name] = totals.get(name, 0) + value.double()
    metrics = task.metrics(totals, 0)
    assert metrics["exact_match"] == pytest.approx(right[0] / right[1])
    assert metrics["accuracy"] == pytest.approx(tokens[0] / tokens[1])


def test_only_what_is_scored_is_computed_and_counts():
    labels = torch.tensor([[IGNORE, 2, 4], [3, IGNORE, IGNORE]])
    logits = normal(3, 5)
    rows = zip(logits.tolist(), (2, 4, 3), strict=True)
    expected = sum(math.log(sum(math.exp(x) for x in row)) - row[label] for row, label in rows)
    loss = NextToken().loss(Fixed(logits), Batch(torch.zeros_like(labels), labels, logits_at=labels != IGNORE))
    close(loss.total, expected)
    assert loss.count == 3


@pytest.mark.parametrize("name", ["next_token", "next_token_inside", "next_token_of_pairs", "next_token_of_tags"])
def test_every_kind_of_example_is_learned_by_heart(name):
    case = CASES[name]
    net, task = case.network(torch.float32).train(), case.make()
    of_rows = name.startswith("next_token_of")
    batch = case.batch([0, 3] if of_rows else range(4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(100):
        loss = task.loss(net, batch)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    with torch.no_grad():
        metrics = task.metrics(task.score(net.eval(), batch), 0)
    assert metrics["accuracy"] > (0.85 if name == "next_token_inside" else 0.95)  # a first word can only be guessed
    assert ("exact_match" in metrics) == of_rows


def test_each_kind_of_data_becomes_its_batches():
    task = NextToken()
    documents = prepared(["a b c d e f g"] * 3)
    assert task.train_batches(documents, spec(seq_len=4), 0)[0].input_ids.shape == (4, 4)
    assert task.train_batches(documents, spec(seq_len=4), 0)[0].logits_at is None
    inside = task.train_batches(documents, spec(seq_len=4, packing="inside"), 0)[0]
    end = documents.tokenizer.special_id("eos")
    assert torch.equal(inside.position_ids == 0, (inside.input_ids == end) | (torch.arange(4) == 0))
    of_pairs = prepared(PAIRS)
    batch = task.eval_batches(of_pairs, "val", spec())[0]
    assert (batch.input_ids == of_pairs.tokenizer.special_id("bos")).sum(dim=1).tolist() == [1, 1, 1]
    assert batch.logits_at.sum() == 3 + 4 + 1


def test_h25_evaluation_drops_nothing():
    data, short = prepared(PAIRS), spec(seq_len=4, overlong="drop")
    assert len(NextToken().train_batches(data, short, 0).examples.rows) == 1
    assert len(NextToken().eval_batches(data, "val", short).examples.rows) == 3


def test_what_a_run_may_watch_depends_on_the_data():
    assert "bits_per_byte" in NextToken().monitors("documents")
    assert "exact_match" not in NextToken().monitors("documents")
    for kind in ("pairs", "tagged"):
        assert "exact_match" in NextToken().monitors(kind)
        assert "bits_per_byte" not in NextToken().monitors(kind)


@pytest.mark.parametrize("name", ["next_token", "next_token_inside"])
def test_longer_inputs_are_evaluated_at_the_end(name):
    case = CASES[name]
    net, data, task = case.network(torch.float32), case.prepared(), NextToken(extrapolate=[2, 3])
    score = partial(evaluate, net, task, precision="32-true")
    assert task.more_metrics(net, EvalPart(data, "val", case.spec(), False, score)) == {}
    found = task.more_metrics(net, EvalPart(data, "val", case.spec(), True, score))
    assert list(found) == ["loss_2x", "bits_per_byte_2x", "loss_3x", "bits_per_byte_3x"]
    for times in (2, 3):
        expected = score(task.eval_batches(data, "val", case.spec(seq_len=12 * times)))
        for metric in ("loss", "bits_per_byte"):
            assert found[f"{metric}_{times}x"] == pytest.approx(expected[metric], rel=1e-6)
    assert (task.longest_input(12), NextToken().longest_input(12)) == (36, 12)
    assert task.more_metrics(net, EvalPart(prepared(PAIRS), "val", spec(), True, score)) == {}


def test_floors_are_entropies_where_every_token_is_scored():
    documents = prepared(["a b a"])
    assert NextToken().floors(documents, spec()) == ngram_entropies(np.asarray(documents.parts["val"].ids))
    assert NextToken().floors(prepared(PAIRS), spec()) == {}


def test_attention_inside_documents_needs_a_mark_between_them():
    data = prepared(["a b c d e f g"], tokenizer={"name": "word", "specials": ["unk"]})
    inside = spec(seq_len=4, packing="inside")
    for call in (
        lambda: NextToken().train_batches(data, inside, 0),
        lambda: NextToken().eval_batches(data, "val", inside),
    ):
        with pytest.raises(ConfigError) as error:
            call()
        assert str(error.value) == "data.packing: 'inside' needs the special token 'eos' between documents"


@pytest.mark.parametrize(("metric", "better", "worse"), BETTER.values(), ids=BETTER)
def test_which_of_two_values_is_better(metric, better, worse):
    assert is_better(metric, better, worse)
    assert not is_better(metric, worse, better)
    assert not is_better(metric, better, better)
