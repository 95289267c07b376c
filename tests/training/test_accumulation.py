"""One optimizer step is the mean over all its scored tokens, however they are cut into micro-batches."""

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from tests import runs
from tests.tasks.cases import CASES
from tests.tiny import ids, model
from tfexp.batch import IGNORE, Batch
from tfexp.tasks.base import LossSum, Task
from tfexp.tasks.next_token import NextToken
from tfexp.training.fit import _quietly
from tfexp.training.module import TrainingModule
from tfexp.training.run import run

SPLITS = {"1x8": 1, "2x4": 2, "4x2": 4, "8x1": 8}  # micro-batches of a step
SENTENCES = 8


class Weighted(Task):
    """Micro-batches whose loss sums and token counts are given; the loss is w times the sum."""

    def loss(self, net: nn.Module, batch: Batch) -> LossSum:
        total, count = batch.input_ids[0].double()
        return LossSum(net.weight * total, count)


class Scalar(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))


def sentences() -> Batch:
    """Eight rows with 1, 2, ... 8 scored tokens."""
    tokens = ids(SENTENCES, 9)
    labels = tokens[:, 1:].clone()
    for row in range(SENTENCES):
        labels[row, row + 1 :] = IGNORE
    return Batch(tokens[:, :-1], labels)


def gradient(net: nn.Module, task: Task, micro_batches: list[Batch], clip: float | None = None) -> torch.Tensor:
    """What one step of plain SGD subtracts from the parameters, through Lightning."""
    before = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    sgd = torch.optim.SGD(net.parameters(), lr=1.0)
    module = TrainingModule(net, task, sgd, lambda step: 1.0, 0, len(micro_batches), clip)
    trainer = _quietly(
        pl.Trainer,
        max_steps=1,
        accumulate_grad_batches=len(micro_batches),
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    _quietly(trainer.fit, module, DataLoader(micro_batches, batch_size=None))
    assert module.micro_batch == len(micro_batches)
    return before - nn.utils.parameters_to_vector(net.parameters()).detach()


def split(batch: Batch, parts: int) -> list[Batch]:
    pairs = zip(batch.input_ids.chunk(parts), batch.labels.chunk(parts), strict=True)
    return [Batch(tokens, labels) for tokens, labels in pairs]


def tiny():
    return model(seed=3, position="learned").train()


@pytest.mark.parametrize("clip", [None, 0.01], ids=["free", "clipped"])
@pytest.mark.parametrize("parts", SPLITS.values(), ids=SPLITS)
def test_the_gradient_does_not_depend_on_the_split(parts, clip):
    # H12. In float64 but for the loss itself, which tasks take in float32.
    whole, cut = (gradient(tiny(), NextToken(), split(sentences(), n), clip) for n in (1, parts))
    assert float((whole - cut).norm() / whole.norm()) < 1e-6


def test_the_gradient_is_that_of_the_mean_over_all_tokens():
    net, batch = tiny(), sentences()
    loss = cross_entropy(net(batch.input_ids).logits.flatten(0, 1).float(), batch.labels.flatten(), ignore_index=IGNORE)
    by_hand = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))])
    assert float((gradient(tiny(), NextToken(), split(batch, 4)) - by_hand).norm() / by_hand.norm()) < 1e-6


@pytest.mark.parametrize("parts", [2, 8], ids=["2x4", "8x1"])
@pytest.mark.parametrize("name", CASES)
def test_h12_the_gradient_of_every_task_is_that_of_one_batch(name, parts):
    case, rows = CASES[name], np.arange(SENTENCES)
    whole = gradient(case.network(), case.make(), [case.batch(rows)])
    cut = gradient(case.network(), case.make(), [case.batch(which) for which in np.split(rows, parts)])
    assert float((whole - cut).norm() / whole.norm()) < 1e-5


def test_a_mean_per_micro_batch_would_be_seen():
    net = tiny()
    losses = [NextToken().loss(net, part) for part in split(sentences(), 4)]
    wrong = torch.stack([loss.total / loss.count for loss in losses]).mean()
    by_hand = torch.cat([g.flatten() for g in torch.autograd.grad(wrong, list(net.parameters()))])
    right = gradient(tiny(), NextToken(), split(sentences(), 1))
    assert float((right - by_hand).norm() / right.norm()) > 0.05


def test_two_micro_batches_by_hand():
    # Sums and counts (6, 2) and (3, 6): 9/8 = 1.125, not (3 + 0.5) / 2 = 1.75.
    parts = [Batch(torch.tensor([pair]), torch.zeros(1, 2)) for pair in ((6, 2), (3, 6))]
    assert gradient(Scalar(), Weighted(), parts).tolist() == [1.125]
    assert gradient(Scalar(), Weighted(), parts[:1]).tolist() == [3.0]


def test_a_micro_batch_without_labels_counts_nothing():
    parts = [Batch(torch.tensor([pair]), torch.zeros(1, 2)) for pair in ((6, 2), (0, 0))]
    assert gradient(Scalar(), Weighted(), parts).tolist() == [3.0]
    assert gradient(Scalar(), Weighted(), parts[1:]).tolist() == [0.0]


def test_the_logged_loss_is_the_mean_over_the_tokens_of_its_window():
    module = TrainingModule(
        Scalar(), Weighted(), torch.optim.SGD([nn.Parameter(torch.ones(1))]), lambda s: 1.0, 0, 2, None
    )
    for pair in ((6, 2), (3, 6)):
        module.training_step(Batch(torch.tensor([pair]), torch.zeros(1, 2)), 0)
    assert module.take_window() == (1.125, 4)  # tokens that were read, not those that were scored
    assert (module.window, module.window_tokens) == ([], 0)
    padded = Batch(torch.tensor([(6, 2)]), torch.zeros(1, 2), n_tokens=1)
    module.training_step(padded, 0)
    assert module.take_window() == (3.0, 1)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_warmup_counts_optimizer_steps(tmp_path, accumulate):
    # H32: 16 micro-batches with accumulate=4 are 4 steps, with the same curve as 4 batches with accumulate=1.
    settings = ["schedule=constant", "schedule.warmup_steps=4", "optim=sgd", "optim.lr=1", "optim.momentum=0"]
    steps = ["trainer.max_steps=4", "trainer.log_every=1", f"trainer.accumulate={accumulate}"]
    record = run(runs.config(tmp_path, *settings, *steps))
    lines = [line for line in record.metrics() if "train/lr" in line]
    assert [(line["step"], line["train/lr"]) for line in lines] == [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)]
    state = torch.load(record.last_checkpoint, weights_only=True)
    assert (state["global_step"], state["tfexp"]["micro_batch"]) == (4, 4 * accumulate)
    assert record.summary()["tokens_seen"] == 4 * accumulate * 4 * 8


def test_accumulating_equals_a_larger_batch(tmp_path):
    whole, cut = (
        run(runs.config(tmp_path, f"data.batch_size={size}", f"trainer.accumulate={parts}", "trainer.max_steps=3"))
        for size, parts in ((8, 1), (2, 4))
    )
    assert whole.folder != cut.folder
    for one, other in zip(runs.weights(whole).values(), runs.weights(cut).values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)  # float32, three steps of AdamW
