"""What is said of data whose numbers mean less than they seem to."""

import pytest

from tfexp.training.notes import closing_notes, notes

DATA = {"seq_len": 64, "overlong": "truncate"}
COUNTS = {"train_examples": 60, "val_examples": 200, "test_documents": 9}
RAISE = "; raise it, and model.max_seq_len with it"
SAID = {
    "nothing": ({"train_overlong": 0, "val_overlong": 0, "val_rows_in_train": 0}, {}, []),
    "all_of_training": (
        {"train_overlong": 60},
        {},
        [f"train: all 60 of 60 examples are longer than data.seq_len=64 and cut there{RAISE}"],
    ),
    "left_out": (
        {"train_overlong": 6, "val_overlong": 3},
        {"overlong": "drop"},
        [
            f"train: 6 of 60 examples are longer than data.seq_len=64 and left out{RAISE}",
            f"val: 3 of 200 examples are longer than data.seq_len=64 and cut there{RAISE}",
        ],
    ),
    "answers": (
        {"train_overlong": 9, "train_answers_cut": 8, "val_overlong": 142, "val_answers_cut": 140},
        {},
        [
            f"train: 9 of 60 examples are longer than data.seq_len=64 and cut there, 8 of them in their answer{RAISE}",
            "val: 142 of 200 examples are longer than data.seq_len=64 and cut there, 140 of them in their answer, "
            f"which counts as wrong and is not in the loss{RAISE}",
        ],
    ),
    "trained_on": (
        {"val_rows_in_train": 200, "test_rows_in_train": 1},
        {},
        [
            "val: all 200 of 200 examples are in the training part too",
            "test: 1 of 9 documents are in the training part too",
        ],
    ),
}


@pytest.mark.parametrize(("counts", "changes", "lines"), SAID.values(), ids=SAID)
def test_what_is_said_of_the_data(counts, changes, lines):
    assert notes({**COUNTS, **counts}, {**DATA, **changes}) == lines
    of_val = [line for line in lines if line.startswith("val")]
    assert notes({**COUNTS, **counts}, {**DATA, **changes}, ["val"]) == of_val


def test_classes_that_a_mean_leaves_out_are_named():
    labels = [f"c{i}" for i in range(10)]
    summary = {
        "data": COUNTS,
        "details": {"labels": labels, "macro_f1_leaves_out": labels[:8]},
        "test_details": {"labels": labels, "macro_f1_leaves_out": ["c9"]},
    }
    why = "classes, which neither occur there nor are chosen"
    assert closing_notes(summary, DATA) == [
        f"val: macro_f1 leaves out 8 of 10 {why}: c0, c1, c2, c3, c4, c5 and 2 more",
        f"test: macro_f1 leaves out 1 of 10 {why}: c9",
    ]
    assert closing_notes({"data": COUNTS, "details": {}}, DATA) == []
