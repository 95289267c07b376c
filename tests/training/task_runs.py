"""A tiny run of every task, on every kind of data: what the tests of runs are held against."""

from pathlib import Path

from omegaconf import DictConfig

import tfexp
from tests import runs

SMALL = [o for o in runs.TINY_RUN if not o.startswith("data")] + [
    "data.batch_size=4",
    "optim.lr=5e-3",
    "data.n_train=40",
    "data.n_val=10",
    "data.n_test=10",
    "model.max_seq_len=16",
]
OF_LENGTHS = ["data.max_length=5", "data.test_min_length=3", "data.test_max_length=6"]
# Dropout at every site and a clipped gradient: all of it has to go on exactly.
NOISY = [
    *("model.dropout.residual=0.2", "model.dropout.attention=0.1", "model.dropout.embedding=0.1"),
    *("model.dropout.hidden=0.1", "trainer.clip=0.5"),
]
TASKS = {
    "classification": [
        *("task=classification", "data=listops", "data.max_depth=3", "data.max_args=3"),
        *("data.min_length=4", "data.max_length=16"),
    ],
    "masked_lm": ["task=masked_lm", "data=text_files", "data/tokenizer=char", "data.packing=inside"],
    "translation": ["task=translation", "data=reverse", "task.decode_examples=3", *OF_LENGTHS],
    "next_token_of_pairs": ["task=next_token", "data=copy", "data.alphabet=4", "data.batch_tokens=40", *OF_LENGTHS],
    "next_token_of_tags": [
        *("task=next_token", "data=mqar", "data.vocabulary=12", "data.input_len=16", "data.n_pairs=2"),
    ],
}


def overrides(name: str, folder: Path, *more: str) -> list[str]:
    """Overrides of a tiny run of a task, with its outputs in a folder."""
    given = [*TASKS[name], *SMALL]
    if name == "masked_lm":  # a text, not examples that are drawn
        given = [o for o in given if not o.startswith("data.n_")]
        texts = [runs.write_text(folder / f"{part}.txt", seed=k) for k, part in enumerate(("train", "test"))]
        given += [f"data.train={texts[0]}", f"data.test={texts[1]}"]
    return [*given, f"outputs={folder / 'outputs'}", *more]


def config(name: str, folder: Path, *more: str) -> DictConfig:
    return tfexp.compose(*overrides(name, folder, *more))
