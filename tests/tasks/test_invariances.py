"""What every task owes: a result does not depend on how examples share batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.tasks.cases import CASES, OF_ROWS
from tests.tiny import close
from tfexp.batch import Batch
from tfexp.registry import names
from tfexp.tasks.base import EvalBatches, Task
from tfexp.training.evaluate import evaluate

WHICH = range(6)
POOLED = [(side, pooling) for side in ("encoder", "decoder") for pooling in names("pooling")]
# Cases in which a padded place would be seen if nothing said that it is one.
NEED_A_MASK = [name for name in OF_ROWS if "classification" in name or "translation" in name]


def outcome(net: nn.Module, task: Task, batches: list[Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, loss and gradient of all of these batches together."""
    logits = torch.cat([net(**batch.inputs()).logits for batch in batches])
    losses = [task.loss(net, batch) for batch in batches]
    loss = torch.stack([loss.total for loss in losses]).sum() / torch.stack([loss.count for loss in losses]).sum()
    gradients = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
    return logits, loss.double(), torch.cat([g.flatten() for g in gradients if g is not None])


def assert_same(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> None:
    for first, second in zip(one, other, strict=True):
        close(first, second, atol=2e-6, rtol=1e-6)  # a classifier's loss is taken in float32


def alone(name: str) -> list[Batch]:
    return [CASES[name].batch([k]) for k in WHICH]


@pytest.mark.parametrize("name", CASES)
def test_a_batch_of_one_and_a_batch_of_many_agree(name):
    case = CASES[name]
    net, task = case.network(), case.make()
    assert_same(outcome(net, task, alone(name)), outcome(net, task, [case.batch(WHICH)]))
    close(outcome(net, task, alone(name))[0], outcome(net, task, [case.batch(WHICH)])[0], atol=1e-11)


@pytest.mark.parametrize(("side", "pooling"), POOLED)
def test_every_pooling_is_blind_to_padding(side, pooling):
    case = CASES["classification"]
    net = case.network(architecture=side, pooling=pooling)
    one, many = (outcome(net, case.make(), batches) for batches in (alone("classification"), [case.batch(WHICH)]))
    assert_same(one, many)
    unmasked = replace(case.batch(WHICH), attention_mask=None)
    seen = (outcome(net, case.make(), [unmasked])[0] - one[0]).abs().max()
    # The first token of a decoder sees no padding; whatever else is pooled does.
    assert (seen > 1e-3) == ((side, pooling) != ("decoder", "cls"))


@pytest.mark.parametrize("name", NEED_A_MASK)
def test_a_forgotten_mask_would_be_seen(name):
    case = CASES[name]
    net, task, batch = case.network(), case.make(), case.batch(WHICH)
    with pytest.raises(AssertionError):
        assert_same(outcome(net, task, alone(name)), outcome(net, task, [replace(batch, attention_mask=None)]))


@pytest.mark.parametrize("name", ["next_token_of_pairs", "next_token_of_tags", "translation"])
def test_a_scored_pad_would_be_seen(name):
    case = CASES[name]
    batch = case.batch(WHICH)
    scored = replace(batch, labels=batch.labels.clamp(min=0), logits_at=torch.ones_like(batch.logits_at))
    with pytest.raises(AssertionError):
        assert_same(*(outcome(case.network(), case.make(), [b])[1:] for b in (batch, scored)))


@pytest.mark.parametrize("name", CASES)
def test_h15_an_evaluation_does_not_depend_on_the_batch_size(name):
    case = CASES[name]
    net, task = case.network(torch.float32), case.make()
    results = [evaluate(net, task, case.eval_batches(size), "32-true") for size in (1, 2, 7)]
    assert set(task.metric_names) >= results[0].keys() >= {"loss", "accuracy"}
    for result in results[1:]:
        assert result == pytest.approx(results[0], rel=1e-6, abs=1e-9)


def mean_of_means(net: nn.Module, task: Task, batches: EvalBatches) -> float:
    """What an evaluation must not be: short batches weigh as much as long ones."""
    sums = [task.score(net, batches[k]) for k in range(len(batches))]
    return float(np.mean([s["loss"].item() / s["count"].item() for s in sums]))


@pytest.mark.parametrize("name", CASES)
def test_h15_a_mean_of_batch_means_would_be_seen(name):
    case = CASES[name]
    net, task = case.network(torch.float32), case.make()
    wrong = [mean_of_means(net, task, case.eval_batches(size)) for size in (1, 2, 7)]
    with pytest.raises(AssertionError):
        assert wrong[1:] == pytest.approx(wrong[:1] * 2, rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_training_and_evaluation_measure_the_same_loss_where_nothing_is_smoothed(name):
    case = CASES[name]
    net, task, batch = case.network(), case.make(), case.batch(WHICH)
    loss, sums = task.loss(net, batch), task.score(net, batch)
    smoothed = case.task.get("label_smoothing", 0.0) > 0
    assert loss.count == sums["count"]
    assert (abs(loss.total - sums["loss"]) < 1e-9) == (not smoothed)


@pytest.mark.parametrize("name", CASES)
def test_names_of_metrics_are_those_that_a_run_may_watch(name):
    case = CASES[name]
    task, data = case.make(), case.prepared()
    found = evaluate(case.network(torch.float32), task, case.eval_batches(7), "32-true")
    kind = data.parts["val"].kind
    assert {m for m in task.monitors(kind) if not m.endswith("_subset")} - {"bits_per_byte"} <= found.keys()
    assert task.monitor in task.monitors(kind)
