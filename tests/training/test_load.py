import json
import shutil

import pytest
import torch

import tfexp
from tests import runs
from tests.tiny import close
from tfexp.errors import ConfigError, RunError
from tfexp.training.api import load_record
from tfexp.training.record import Record
from tfexp.training.reevaluate import reevaluate
from tfexp.training.run import run

REFUSED = {
    "model": ("model.tie_embeddings=false", "model.tie_embeddings: an evaluation can change the data, not what was"),
    "optim": ("optim.lr=1", "optim.lr: an evaluation can change the data, not what was trained; keys: data.*"),
    "vocabulary": ("data.tokenizer=bpe", "data.tokenizer: a run is bound to the vocabulary it was trained with"),
    "vocabulary_key": ("data.tokenizer.specials=[]", "data.tokenizer.specials: a run is bound to the vocabulary it"),
    "typo": ("data.seqlen=4", "data.seqlen: unknown key; did you mean 'seq_len'?"),
    "type": ("data.seq_len=None", "data.seq_len: expected int or null >= 1, got 'None'; write null for no value"),
    "no_value": ("data.seq_len", "data.seq_len: expected key=value, such as data.seq_len=256"),
    "open_bracket": ("data.batch_size=[1", "data.batch_size: expected int >= 1, got '[1'"),
    "open_interpolation": ("data.val=${", "data.val: cannot read '${': "),
    "below_a_value": ("data.batch_size.x=1", "data.batch_size: expected int >= 1, got {'x': 1}"),
    "missing_file": ("data.val=none.txt", "data.val: there is no file none.txt"),
    "interpolation": ("data.val=${nope}", "data.val: Interpolation key 'nope' not found"),
}


@pytest.fixture
def copied(trained, tmp_path) -> Record:
    """The trained run in a folder that a test may damage."""
    return Record(shutil.copytree(trained.folder, tmp_path / trained.folder.name))


def test_best_and_last_weights_are_those_of_the_record(trained):
    for weights, file in (("best", "best.pt"), ("last", "last.ckpt")):
        model = tfexp.load(trained.folder, weights=weights)
        saved = runs.weights(trained, file)
        assert model.state_dict().keys() == saved.keys()  # strict: no name is missing, none is left over
        assert all(torch.equal(model.state_dict()[name], saved[name]) for name in saved)
        assert not model.training
        assert model.tokenizer.vocab_size == model.spec.vocab_size == 14


def test_a_run_is_loaded_by_its_hash(trained):
    outputs = str(trained.folder.parents[1])
    assert tfexp.load(trained.hash[:6], outputs=outputs).spec == tfexp.load("last", outputs=outputs).spec


def test_a_tied_matrix_stays_one_after_loading(trained):
    # H16: two names, one tensor, one entry in the optimizer.
    model = tfexp.load(trained.folder)
    shared = [n for n, p in model.named_parameters(remove_duplicate=False) if p is model.embedding.table()]
    assert len(shared) == 2
    assert sum(p.numel() for p in model.parameters()) == trained.summary()["parameters"]["total"]
    with torch.no_grad():
        model.embedding.table().zero_()
    assert all((model.state_dict()[name] == 0).all() for name in shared)
    state = torch.load(trained.last_checkpoint, weights_only=True)["optimizer_states"][0]
    held = [index for group in state["param_groups"] for index in group["params"]]
    assert len(held) == len(set(held)) == len(list(model.parameters()))


def test_an_untied_head_is_a_matrix_of_its_own(trained, tmp_path):
    record = run(runs.config(tmp_path, "model.tie_embeddings=false", "trainer.max_steps=1"))
    model = tfexp.load(record.folder)
    assert sum(p.numel() for p in model.parameters()) == trained.summary()["parameters"]["total"] + 14 * 16


def test_weights_that_are_not_there_yet_are_named(copied):
    copied.best_checkpoint.unlink()
    with pytest.raises(RunError, match=r"has no best weights: its state is 'complete'; run its command again$"):
        load_record(copied)
    assert load_record(copied, "last")


def test_the_vocabulary_of_another_run_is_refused(copied, tmp_path):
    other = run(runs.config(tmp_path, "data.tokenizer.specials=[unk]", "trainer.max_steps=1"))
    larger = run(runs.config(tmp_path, "data/tokenizer=byte", "trainer.max_steps=1"))
    for record, size in ((other, 11), (larger, 260)):
        shutil.copy(record.tokenizer_file, copied.tokenizer_file)
        message = rf"is not the vocabulary that this run was trained with \({size} tokens here, 14 in the model\)$"
        with pytest.raises(RunError, match=message):
            load_record(copied)
    shutil.copy(other.tokenizer_file, copied.tokenizer_file)
    copied.summary_file.unlink()  # an interrupted run has none: then the size alone can tell
    assert load_record(copied)
    shutil.copy(larger.tokenizer_file, copied.tokenizer_file)
    with pytest.raises(RunError, match="is not the vocabulary"):
        load_record(copied)


def test_evaluating_again_gives_what_was_recorded(trained):
    summary = trained.summary()
    for weights, recorded in (("best", summary["best"]), ("last", summary["final"])):
        metrics = reevaluate(trained, weights=weights)
        assert metrics == {name: value for name, value in recorded.items() if name != "step"}


def test_how_the_text_is_cut_into_batches_does_not_matter(trained):
    assert reevaluate(trained, ["data.batch_size=1", "data.sampling=windows"]) == reevaluate(trained)


def test_other_text_is_scored_with_the_runs_vocabulary(trained, tmp_path):
    text = runs.write_text(tmp_path / "text one=1: a: b.txt", words=100, seed=7)
    metrics = reevaluate(trained, [f"data.val={text}", f"data.test={text}"])
    assert metrics["val/loss"] == metrics["test/loss"]
    assert metrics["val/loss"] != reevaluate(trained)["val/loss"]


@pytest.mark.parametrize("position", ["rope", "alibi", "none", "sinusoidal"])
def test_a_position_that_extrapolates_is_evaluated_beyond_its_length(tmp_path, position):
    record = run(runs.config(tmp_path, f"model/position={position}", "trainer.max_steps=1"))
    longer = reevaluate(record, ["data.seq_len=20"])
    assert longer["val/loss"] > 0
    assert longer["val/loss"] != reevaluate(record)["val/loss"]
    assert reevaluate(record, ["data.seq_len=4"])["val/loss"] > 0


def test_a_learned_position_is_not_evaluated_beyond_its_table(tmp_path):
    record = run(runs.config(tmp_path, "model/position=learned", "trainer.max_steps=1"))
    with pytest.raises(ConfigError, match=r"^data\.seq_len: 20 tokens do not fit model\.max_seq_len=8; lower one or"):
        reevaluate(record, ["data.seq_len=20"])
    assert reevaluate(record, ["data.seq_len=4"])["val/loss"] > 0


@pytest.mark.parametrize(("override", "message"), REFUSED.values(), ids=REFUSED)
def test_what_an_evaluation_cannot_change_is_refused(trained, override, message):
    with pytest.raises(tfexp.errors.TfexpError) as error:
        reevaluate(trained, [override])
    assert str(error.value).startswith(message)


def test_no_file_of_a_run_needs_trust(trained):
    for path in (trained.best_checkpoint, trained.last_checkpoint):
        assert torch.load(path, weights_only=True)
    json.loads(trained.summary_file.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of torch's compiler
def test_a_compiled_run_is_like_any_other(tmp_path):
    # H17: names without a prefix, and the same numbers.
    compiled, plain = (run(runs.config(tmp_path, f"trainer.compile={value}")) for value in ("true", "false"))
    assert runs.weights(compiled).keys() == runs.weights(plain).keys()
    for weights in ("best", "last"):
        tokens = torch.arange(1, 9)[None]
        one, other = (tfexp.load(record.folder, weights=weights)(tokens).logits for record in (compiled, plain))
        close(one, other, atol=1e-4)  # float32 through 12 steps, other kernels
    assert reevaluate(compiled)["val/loss"] == pytest.approx(compiled.summary()["best"]["val/loss"], abs=1e-5)
