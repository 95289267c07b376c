"""Losses and metrics of classification against loops over plain numbers."""

import math

import pytest
import torch

from tests.prepared import labelled, prepared, several, spec
from tests.tasks.cases import CASES, Fixed
from tests.tiny import normal
from tfexp.batch import Batch
from tfexp.data.corpus import Labelled
from tfexp.errors import DataError
from tfexp.tasks.classification import Classification

LN2 = math.log(2)
# confusion (rows: true, columns: chosen) -> accuracy, macro F1, micro F1; by hand
CONFUSIONS = {
    "perfect": ([[3, 0], [0, 2]], 1.0, 1.0, 1.0),
    "one_wrong": ([[2, 1], [0, 3]], 5 / 6, (4 / 5 + 6 / 7) / 2, 5 / 6),
    "all_say_the_first": ([[4, 0, 0], [3, 0, 0], [2, 0, 0]], 4 / 9, (8 / 13 + 0 + 0) / 3, 4 / 9),
    # As scikit-learn's f1_score(average="macro"): a class that neither occurs nor is chosen has no part in the mean.
    "a_class_that_is_not_there": ([[1, 0, 0], [1, 2, 0], [0, 0, 0]], 3 / 4, (2 / 3 + 4 / 5) / 2, 3 / 4),
    "two_perfect_classes_of_three": ([[2, 0, 0], [0, 0, 0], [0, 0, 3]], 1.0, 1.0, 1.0),
    "a_class_that_is_only_chosen": ([[1, 1], [0, 0]], 1 / 2, (2 / 3 + 0) / 2, 1 / 2),
    "a_class_that_is_never_chosen": ([[1, 0], [1, 0]], 1 / 2, (2 / 3 + 0) / 2, 1 / 2),
    "all_wrong": ([[0, 2], [2, 0]], 0.0, 0.0, 0.0),
    "nothing": ([[0, 0], [0, 0]], 0.0, 0.0, 0.0),
}
# tp, fp, fn of each class, exact rows of 4 -> accuracy, macro F1, micro F1; by hand
SEVERAL = {
    "perfect": ([[2, 1], [0, 0], [0, 0]], 4, 1.0, 1.0, 1.0),
    "mixed": ([[2, 0], [1, 0], [0, 3]], 1, 0.25, (4 / 5 + 0) / 2, 4 / (4 + 1 + 3)),
    "never_chosen_and_never_there": ([[2, 0], [0, 0], [0, 0]], 4, 1.0, 1.0, 1.0),
    "nothing": ([[0, 0], [0, 0], [0, 0]], 4, 1.0, 0.0, 0.0),
}


def batch(labels) -> Batch:
    labels = torch.tensor(labels)
    return Batch(torch.zeros(len(labels), 3, dtype=torch.int64), labels)


def cross_entropy(logits: list[float], target: list[float]) -> float:
    total = math.log(sum(math.exp(x) for x in logits))
    return -sum(q * (x - total) for q, x in zip(target, logits, strict=True))


def binary_cross_entropy(logits: list[float], target: list[float]) -> float:
    p = [1 / (1 + math.exp(-x)) for x in logits]
    return -sum(q * math.log(x) + (1 - q) * math.log(1 - x) for q, x in zip(target, p, strict=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_of_one_class_each(smoothing):
    logits, labels = normal(6, 4), [0, 3, 1, 1, 2, 3]
    targets = [[smoothing / 4 + (1 - smoothing) * (k == label) for k in range(4)] for label in labels]
    expected = sum(cross_entropy(row, q) for row, q in zip(logits.tolist(), targets, strict=True))
    task, made = Classification(label_smoothing=smoothing), Fixed(logits)
    loss, sums = task.loss(made, batch(labels)), task.score(made, batch(labels))
    assert (loss.total.item(), loss.count.item()) == (pytest.approx(expected, rel=1e-6), 6)
    plain = sum(
        cross_entropy(row, [float(k == y) for k in range(4)]) for row, y in zip(logits.tolist(), labels, strict=True)
    )
    assert sums["loss"].item() == pytest.approx(plain, rel=1e-6)  # an evaluation is never smoothed


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_several_classes(smoothing):
    logits, labels = normal(4, 3), [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]
    targets = [[y * (1 - smoothing) + smoothing / 2 for y in row] for row in labels]
    expected = sum(binary_cross_entropy(row, q) for row, q in zip(logits.tolist(), targets, strict=True))
    task, made = Classification(multi_label=True, label_smoothing=smoothing), Fixed(logits)
    loss, sums = task.loss(made, batch(labels)), task.score(made, batch(labels))
    assert (loss.total.item(), loss.count.item()) == (pytest.approx(expected, rel=1e-6), 4)
    plain = sum(binary_cross_entropy(row, q) for row, q in zip(logits.tolist(), labels, strict=True))
    assert sums["loss"].item() == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(("confusion", "accuracy", "macro", "micro"), CONFUSIONS.values(), ids=CONFUSIONS)
def test_metrics_of_one_class_each_by_hand(confusion, accuracy, macro, micro):
    confusion = torch.tensor(confusion).double()
    sums = {"loss": torch.tensor(3.0), "count": confusion.sum(), "confusion": confusion}
    metrics = Classification().metrics(sums, 0)
    expected = {
        "loss": 3.0 / max(1.0, confusion.sum().item()),
        "accuracy": accuracy,
        "macro_f1": macro,
        "micro_f1": micro,
    }
    assert metrics == pytest.approx(expected, abs=1e-12)
    assert set(metrics) == set(Classification.metric_names)


@pytest.mark.parametrize(("hits", "exact", "accuracy", "macro", "micro"), SEVERAL.values(), ids=SEVERAL)
def test_metrics_of_several_classes_by_hand(hits, exact, accuracy, macro, micro):
    sums = {"loss": torch.tensor(2.0), "count": torch.tensor(4.0), "correct": torch.tensor(float(exact))}
    metrics = Classification(multi_label=True).metrics({**sums, "hits": torch.tensor(hits).double()}, 0)
    assert metrics == pytest.approx(
        {"loss": 0.5, "accuracy": accuracy, "macro_f1": macro, "micro_f1": micro}, abs=1e-12
    )


def test_the_confusion_matrix_counts_rows_as_true_and_columns_as_chosen():
    logits = torch.tensor([[2.0, 0, 0], [0, 3, 0], [0, 1, 0], [0, 0, 4]])
    sums = Classification().score(Fixed(logits), batch([0, 1, 2, 2]))
    assert sums["confusion"].tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    details = Classification().details(sums, ("x", "y", "z"))
    assert details["confusion"] == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]


def test_details_say_what_each_class_reached_and_which_ones_have_no_f1():
    confusion = torch.tensor([[2, 0, 0, 0], [1, 3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]).double()
    expected = {
        "labels": ["w", "x", "y", "z"],
        "f1": [pytest.approx(4 / 5), pytest.approx(6 / 7), None, None],
        "texts": [2, 4, 0, 0],
        "macro_f1_leaves_out": ["y", "z"],
    }
    found = Classification().details({"confusion": confusion}, ("w", "x", "y", "z"))
    assert found == {**expected, "confusion": confusion.long().tolist()}
    hits = torch.tensor([[2, 3, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]).double()  # the same as tp, fp, fn of each class
    assert Classification(multi_label=True).details({"hits": hits}, ("w", "x", "y", "z")) == expected


def test_a_class_is_chosen_from_one_half_on():
    logits = torch.tensor([[0.0, -0.1, 5.0], [-1.0, -1.0, -1.0]])
    sums = Classification(multi_label=True).score(Fixed(logits), batch([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    assert sums["hits"].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]  # tp, fp, fn
    assert (sums["correct"].item(), sums["count"].item()) == (1, 2)


def test_what_is_best_is_the_highest_accuracy():
    assert Classification().monitor == "accuracy"
    assert Classification().monitors("labelled") == ("loss", "accuracy", "macro_f1", "micro_f1")


@pytest.mark.parametrize("classes", [(), ("x", "y")], ids=["none", "two"])
def test_other_than_one_class_needs_to_be_asked_for(classes):
    data = prepared([Labelled("a", ("x",)), Labelled("b", ("y",))], [Labelled("a", ("x",)), Labelled("b", classes)])
    with pytest.raises(DataError) as error:
        Classification().eval_batches(data, "val", spec())
    assert str(error.value) == (
        f"data.val: example 2 has {len(classes)} labels; "
        "set task.multi_label=true for texts with several classes or none"
    )
    assert Classification().train_batches(data, spec(), 0)[0].labels.dtype == torch.int64
    assert len(Classification(multi_label=True).eval_batches(data, "val", spec())[0].labels) == 2


def test_floors_are_the_most_frequent_class():
    rows = [Labelled("a", (label,)) for label in ("x", "y", "y")]
    data = prepared(rows, [Labelled("a", (label,)) for label in ("y", "x", "x", "x")])
    assert Classification().floors(data, spec()) == {"majority_accuracy": 0.25}
    assert Classification(multi_label=True).floors(prepared(several(5)), spec()) == {}


def test_batches_follow_the_settings():
    data = prepared(labelled(20))
    by_number = Classification().train_batches(data, spec(batch_size=7), 0)
    assert sorted(len(by_number[k].labels) for k in range(by_number.per_epoch)) == [6, 7, 7]
    by_tokens = Classification().train_batches(data, spec(batch_tokens=16), 0)
    assert all(by_tokens[k].input_ids.numel() <= 16 for k in range(by_tokens.per_epoch))
    dropped = Classification().train_batches(data, spec(seq_len=6, overlong="drop"), 0)
    assert 0 < len(dropped.examples.rows) < 20
    assert len(Classification().eval_batches(data, "val", spec(seq_len=6, overlong="drop")).examples.rows) == 20


@pytest.mark.parametrize(
    "name", ["classification", "classification_smoothed_by_a_decoder", "classification_of_several"]
)
def test_one_batch_is_learned_by_heart(name):
    case = CASES[name]
    net, task, made = case.network(torch.float32).train(), case.make(), case.batch(range(8))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        loss = task.loss(net, made)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    with torch.no_grad():
        assert task.metrics(task.score(net.eval(), made), 0)["accuracy"] == 1.0
