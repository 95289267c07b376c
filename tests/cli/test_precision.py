"""What is generated is what was evaluated: one precision for both, that of the run unless another is named."""

import json
import random

import pytest
import torch

import tfexp
from tests.runs import TINY_RUN
from tfexp.cli.main import main
from tfexp.data.prepare import encode_with
from tfexp.data.spec import DataSpec
from tfexp.model.mode import evaluating
from tfexp.training.answer import task_of
from tfexp.training.record import Record

N = 60
KEPT = [o for o in TINY_RUN if not o.startswith(("data", "trainer.precision", "model.max"))]


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> Record:
    """A translation run in bfloat16, of letters that mean nothing: many of its choices are close ones."""
    folder = tmp_path_factory.mktemp("precision")
    draw = random.Random(0)
    pairs = ["\t".join("".join(draw.choices("abcdefgh", k=8)) for _ in "st") for _ in range(N)]
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    text = f"data.train={folder / 'pairs.tsv'}", f"data.val={folder / 'pairs.tsv'}"
    command = ["task=translation", "data=table_files", "data.source=0", "data.target=1", "data/tokenizer=char", *text]
    more = ["trainer.precision=bf16-mixed", "model.max_seq_len=12", "task.n_beams=3", f"outputs={folder / 'outputs'}"]
    assert main(["train", *KEPT, *command, *more]) == 0
    (found,) = (folder / "outputs" / "runs").iterdir()
    return Record(found)


def evaluated(record: Record, precision) -> list[str]:
    config = record.config()
    model = tfexp.load(record.folder)
    model.precision = None  # as in training, where the evaluation sets it around all
    data = encode_with(model.tokenizer, record.labels(), tfexp.config.freeze.to_plain(config)["data"])
    spec = DataSpec.from_node(tfexp.config.freeze.to_plain(config)["data"])
    with evaluating(model, precision):
        return task_of(record).targets(model, data, "val", spec, range(N))


def generated(record: Record, capsys, *more: str) -> list[str]:
    sources = [line.split("\t")[0] for line in (record.folder.parents[2] / "pairs.tsv").read_text().splitlines()]
    capsys.readouterr()
    prompts = [part for source in sources for part in ("-p", source)]
    assert main(["generate", str(record.folder), *prompts, "--json", *more]) == 0
    return [result["text"] for result in json.loads(capsys.readouterr().out)["results"]]


def test_generation_says_what_the_evaluation_scored(record, capsys):
    assert generated(record, capsys) == evaluated(record, "bf16-mixed")
    full = generated(record, capsys, "trainer.precision=32-true")
    assert full == evaluated(record, "32-true")
    assert full != evaluated(record, "bf16-mixed")  # else nothing of this would be seen


def test_evaluation_takes_another_precision_too(record, capsys):
    losses = []
    for more in ([], ["trainer.precision=bf16-mixed"], ["trainer.precision=32-true"]):
        capsys.readouterr()
        assert main(["evaluate", str(record.folder), "--json", *more]) == 0
        losses.append(json.loads(capsys.readouterr().out)["metrics"])
    assert losses[0] == losses[1] == {k: v for k, v in record.summary()["best"].items() if k != "step"}
    assert losses[2]["val/loss"] != losses[0]["val/loss"]
    assert losses[2]["val/loss"] == pytest.approx(losses[0]["val/loss"], rel=2e-2)


REFUSED = {
    "precision": ("trainer.precision=half", "trainer.precision: expected one of auto, 32-true, bf16-mixed, got 'half'"),
    "other": ("trainer.max_steps=3", "trainer.max_steps: generating can change the precision only; keys: generation.*"),
}


@pytest.mark.parametrize(("override", "message"), REFUSED.values(), ids=REFUSED)
def test_another_setting_is_refused(record, capsys, override, message):
    capsys.readouterr()
    assert main(["generate", str(record.folder), "-p", "a", override]) == 1
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_loaded_model_generates_in_the_precision_of_its_run(record):
    model = tfexp.load(record.folder)
    assert model.precision == "bf16-mixed"
    ids = torch.zeros(1, 2, dtype=torch.int64)
    assert model(ids, decoder_input_ids=ids).logits.dtype == torch.float32  # a call of one's own is as torch has it
