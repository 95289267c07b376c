import math

import numpy as np
import pytest
import torch
from torch import nn

from tests.tasks.cases import Fixed
from tests.tiny import close, ids, model
from tfexp.batch import IGNORE, Batch
from tfexp.data.blocks import EvalBlocks
from tfexp.tasks.base import EVAL_TOKENS, Task, count_scored, mean_metrics
from tfexp.tasks.next_token import NextToken
from tfexp.training.evaluate import evaluate, prefixed

LN2 = math.log(2)
# (sums over a part, its bytes) -> loss, perplexity, bits per byte; by hand.
PARTS = {
    "h15": ({"loss": 4.0 + 9.0, "count": 1 + 9, "correct": 4}, 0, 1.3, 3.6692967, None),
    "uniform_over_two": ({"loss": 10 * LN2, "count": 10, "correct": 5}, 40, LN2, 2.0, 0.25),
    "several_bytes_a_token": ({"loss": 6 * LN2, "count": 2, "correct": 0}, 6, 3 * LN2, 8.0, 1.0),
    "certain": ({"loss": 0.0, "count": 3, "correct": 3}, 3, 0.0, 1.0, 0.0),
    "nothing_scored": ({"loss": 0.0, "count": 0, "correct": 0}, 0, 0.0, 1.0, None),
    "hopeless": ({"loss": 2000.0, "count": 2, "correct": 0}, 0, 1000.0, math.inf, None),
}


def part(n: int, seq_len: int, batch_size: int) -> EvalBlocks:
    return EvalBlocks(ids(n, seed=5).numpy(), seq_len, batch_size, n)


def mean_of_means(tiny: nn.Module, task: Task, blocks: EvalBlocks) -> float:
    """What an evaluation must not be: short batches weigh as much as long ones."""
    sums = [task.score(tiny, blocks[k]) for k in range(len(blocks))]
    return float(np.mean([s["loss"].item() / s["count"].item() for s in sums]))


@pytest.mark.parametrize(("sums", "n_bytes", "loss", "perplexity", "bits"), PARTS.values(), ids=PARTS)
def test_metrics_by_hand(sums, n_bytes, loss, perplexity, bits):
    metrics = NextToken().metrics({name: float(value) for name, value in sums.items()}, n_bytes)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-12)
    assert metrics["perplexity"] == pytest.approx(perplexity, rel=1e-7)
    assert metrics.get("bits_per_byte") == (bits if bits is None else pytest.approx(bits, abs=1e-12))
    assert metrics["accuracy"] == sums["correct"] / max(sums["count"], 1)


def test_scores_of_hand_made_logits():
    # G49: p = [0.2, 0.4, 0.2, 0.2]; the label 1 costs 0.9162907, any other 1.6094379.
    row = [0.0, LN2, 0.0, 0.0]
    batch = Batch(torch.zeros(2, 2, dtype=torch.int64), torch.tensor([[1, 0], [3, IGNORE]]))
    sums = NextToken().score(Fixed(torch.tensor([[row, row], [row, row]])), batch)
    close(sums["loss"].double(), 0.9162907 + 2 * 1.6094379, atol=1e-6)  # float32
    assert (int(sums["count"]), int(sums["correct"])) == (3, 1)


def test_an_ignored_label_moves_neither_the_loss_nor_its_gradient():
    batch = Batch(torch.zeros(1, 2, dtype=torch.int64), torch.tensor([[1, IGNORE]]))
    gradients = []
    for value in (0.0, 50.0):
        fixed = Fixed(torch.tensor([[[0.0, 1.0, 2.0], [value, 0.0, 0.0]]]))
        loss = NextToken().loss(fixed, batch)
        loss.total.backward()
        assert (loss.total.item(), loss.count.item()) == (pytest.approx(1.4076059), 1)
        gradients.append(fixed.logits.grad)
    assert torch.equal(*gradients)
    assert (gradients[0][0, 1] == 0).all()


def test_a_batch_without_labels_weighs_nothing():
    batch = Batch(torch.zeros(1, 2, dtype=torch.int64), torch.full((1, 2), IGNORE))
    fixed = Fixed(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    loss = NextToken().loss(fixed, batch)
    loss.total.backward()
    assert (loss.total.item(), loss.count.item()) == (0.0, 0.0)
    assert (fixed.logits.grad == 0).all()


def test_counts_are_exact_beyond_what_float32_holds():
    assert count_scored(torch.tensor([1, IGNORE, 2]), IGNORE).dtype == torch.float64


@pytest.mark.parametrize("n", [22, 23, 24, 3])
def test_an_evaluation_does_not_depend_on_the_batch_size(n):
    # H15. With 5 tokens a block the last one is short: 22 tokens are 4 blocks and one label.
    tiny = model(dtype=torch.float32)
    results = [evaluate(tiny, NextToken(), part(n, 5, size), "32-true") for size in (1, 2, 7)]
    for result in results[1:]:
        assert result == pytest.approx(results[0], rel=1e-6)


def test_a_mean_of_batch_means_would_be_seen():
    tiny = model(dtype=torch.float32)
    wrong = [mean_of_means(tiny, NextToken(), part(22, 5, size)) for size in (1, 2, 7)]
    with pytest.raises(AssertionError):
        assert wrong[1:] == pytest.approx(wrong[:1] * 2, abs=1e-6)


def test_an_evaluation_equals_one_long_sum():
    tiny = model(dtype=torch.float32, position="none")
    tokens = ids(9, seed=5)
    logits = torch.cat([tiny(tokens[:5][None]).logits[0], tiny(tokens[5:8][None]).logits[0]])
    chosen = logits.log_softmax(-1)[torch.arange(8), tokens[1:]]
    result = evaluate(tiny, NextToken(), part(9, 5, 2), "32-true")
    assert result["loss"] == pytest.approx(-chosen.mean().item(), rel=1e-6)
    assert result["accuracy"] == (logits.argmax(-1) == tokens[1:]).double().mean().item()


def test_an_evaluation_is_free_of_dropout_and_leaves_the_mode_as_it_was():
    tiny = model(dtype=torch.float32, dropout={"residual": 0.5, "attention": 0.5})
    blocks = part(20, 5, 2)
    for mode in (True, False):
        tiny.train(mode)
        first, second = (evaluate(tiny, NextToken(), blocks, "32-true") for _ in range(2))
        assert first == second
        assert tiny.training is mode
        assert all(p.grad is None for p in tiny.parameters())


def test_an_evaluation_restores_the_mode_after_an_error():
    tiny = model(dtype=torch.float32).train()
    with pytest.raises(IndexError):
        evaluate(tiny, NextToken(), EvalBlocks(np.array([1, 99, 3]), 2, 1, 3), "32-true")
    assert tiny.training


def test_bfloat16_is_used_where_it_is_asked_for():
    tiny = model(dtype=torch.float32)
    exact, rounded = (evaluate(tiny, NextToken(), part(40, 5, 4), p)["loss"] for p in ("32-true", "bf16-mixed"))
    assert exact != rounded
    assert rounded == pytest.approx(exact, rel=0.05)


def test_one_batch_is_learned_by_heart():
    torch.manual_seed(0)
    tiny = model(dtype=torch.float32, position="learned").train()
    tokens = ids(2, 9)
    batch = Batch(tokens[:, :-1], tokens[:, 1:])
    optimizer = torch.optim.Adam(tiny.parameters(), lr=0.02)
    for _ in range(80):
        loss = NextToken().loss(tiny, batch)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    assert loss.total / loss.count < 0.05
    assert NextToken().score(tiny.eval(), batch)["correct"] == 16


def test_a_task_must_say_what_it_scores():
    for call in (Task().loss, Task().score, Task().metrics):
        with pytest.raises(NotImplementedError):
            call(None, None)


def test_names_get_the_part_in_front():
    assert prefixed("val", mean_metrics({"loss": 0.0, "count": 1.0}, 0)) == {"val/loss": 0.0, "val/perplexity": 1.0}
    assert EVAL_TOKENS >= 1024
