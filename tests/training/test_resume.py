"""Stopping and going on: whatever ends a run, the same command finishes it as if nothing had happened."""

import os
import signal

import pytest
import torch

from tests import runs
from tfexp.errors import RunError
from tfexp.tasks.next_token import NextToken
from tfexp.training import fit
from tfexp.training.run import plan_run, run

# Dropout at every site, a clipped gradient and a metric window of 4 steps: all of it has to go on exactly.
NOISY = [
    "model.dropout.residual=0.2",
    "model.dropout.attention=0.1",
    "model.dropout.embedding=0.1",
    "model.dropout.hidden=0.1",
    "trainer.clip=0.5",
]
SETTINGS = {
    "plain": (NOISY, 1),
    "accumulated": ([*NOISY, "trainer.accumulate=2"], 2),
    "muon": ([*NOISY, "optim=muon"], 1),
    "epochs": ([*NOISY, "data.batch_size=40", "data.workers=2"], 1),  # an epoch is 5.4 steps
    "windows": ([*NOISY, "data.sampling=windows", "optim=sgd", "schedule=linear"], 1),
}
STOPS = {
    "plain": (1, 5, 6, 7, 11),  # first step, inside a log window, at an evaluation, after it, before the last
    "accumulated": (3, 8, 15),  # the first and the second micro-batch of a step
    "muon": (5,),
    "epochs": (5, 6, 8),  # H30: where an epoch ends, and inside the second
    "windows": (9,),
}
CASES = [(name, stop) for name, stops in STOPS.items() for stop in stops]
# A task that ends its process as the environment says: in a process of its own nothing can be patched.
PLUGIN = """
import os, signal
from tfexp.registry import register
from tfexp.tasks.next_token import NextToken

@register("task", "fragile")
class Fragile(NextToken):
    seen = 0

    def loss(self, model, batch):
        Fragile.seen += 1
        if Fragile.seen == int(os.environ.get("END_AT", 0)):
            os.kill(os.getpid(), int(os.environ["END_WITH"]))
        return super().loss(model, batch)
"""


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Uninterrupted runs, by setting; each trained when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("straight"), {}

    def get(name: str):
        if name not in made:
            made[name] = run(runs.config(folder, *SETTINGS[name][0]))
        return made[name]

    return get


def stop_at(monkeypatch, micro_batch: int, act) -> None:
    """Call `act` in the midst of a micro-batch of the next run, once."""
    original, seen = NextToken.loss, []

    def loss(self, model, batch):
        seen.append(1)
        if len(seen) == micro_batch:
            act()
        return original(self, model, batch)

    monkeypatch.setattr(NextToken, "loss", loss)


def send(number: signal.Signals):
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize(("setting", "stop"), CASES, ids=[f"{name}-{stop}" for name, stop in CASES])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, monkeypatch, straight, setting, stop):
    overrides, accumulate = SETTINGS[setting]
    config = runs.config(tmp_path, *overrides)
    with monkeypatch.context() as patched:
        stop_at(patched, stop, send(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run(config)
    record = plan_run(config).record
    assert record.status()["state"] == "interrupted"
    assert record.status()["reason"] == "stopped by a signal; run the same command again to go on"
    checkpoint = torch.load(record.last_checkpoint, weights_only=True)
    assert checkpoint["global_step"] == -(-stop // accumulate)  # the step that was under way is finished
    assert run(config).state == "complete"
    runs.assert_same_result(record, straight(setting))


def test_several_stops_and_both_signals(tmp_path, monkeypatch, straight):
    config = runs.config(tmp_path, *NOISY)
    for stop, number in ((2, signal.SIGTERM), (3, signal.SIGINT), (1, signal.SIGTERM)):
        with monkeypatch.context() as patched:
            stop_at(patched, stop, send(number))
            with pytest.raises(KeyboardInterrupt):
                run(config)
    record = run(config)
    runs.assert_same_result(record, straight("plain"))
    assert record.summary()["tokens_seen"] == straight("plain").summary()["tokens_seen"] == 12 * 4 * 8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_last_step_does_not_undo_the_run(tmp_path, monkeypatch, straight, number):
    stop_at(monkeypatch, 12, send(number))
    record = run(runs.config(tmp_path, *NOISY))
    assert record.state == "complete"
    runs.assert_same_result(record, straight("plain"))


def test_a_second_signal_stops_at_once(tmp_path, monkeypatch, straight):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    config = runs.config(tmp_path, *NOISY)
    with monkeypatch.context() as patched:
        stop_at(patched, 8, twice)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    record = plan_run(config).record
    assert record.state == "interrupted"
    runs.assert_same_result(run(config), straight("plain"))  # from the checkpoint of step 6


def test_what_a_signal_breaks_beside_the_run_counts_as_the_signal(tmp_path, monkeypatch, straight):
    def kill_the_whole_group():
        os.kill(os.getpid(), signal.SIGTERM)
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Terminated.")

    config = runs.config(tmp_path, *NOISY)
    with monkeypatch.context() as patched:
        stop_at(patched, 8, kill_the_whole_group)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    assert plan_run(config).record.state == "interrupted"
    runs.assert_same_result(run(config), straight("plain"))


def test_a_stop_between_the_last_step_and_the_summary_costs_nothing(tmp_path, monkeypatch, straight):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    config = runs.config(tmp_path, *NOISY)
    with monkeypatch.context() as patched:
        patched.setattr(fit, "_summary", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    monkeypatch.setattr(NextToken, "loss", None)  # nothing is left to train
    record = run(config)
    runs.assert_same_result(record, straight("plain"))
    assert record.summary()["tokens_seen"] == 12 * 4 * 8


def test_handlers_of_signals_are_put_back(tmp_path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run(runs.config(tmp_path))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_run_that_failed_says_why_and_can_be_repeated(tmp_path, monkeypatch, straight):
    def fail():
        raise RuntimeError("out of luck")

    config = runs.config(tmp_path, *NOISY)
    with monkeypatch.context() as patched:
        stop_at(patched, 9, fail)
        with pytest.raises(RuntimeError, match="out of luck"):
            run(config)
    record = plan_run(config).record
    assert (record.state, record.status()["reason"]) == ("failed", "RuntimeError: out of luck")
    with pytest.raises(RunError, match="has no summary: its state is 'failed'"):
        record.summary()
    runs.assert_same_result(run(config), straight("plain"))


def test_a_checkpoint_on_a_step_rule_changes_nothing_else(tmp_path, monkeypatch, straight):
    config = runs.config(tmp_path, *NOISY, "trainer.checkpoint_every=1")
    with monkeypatch.context() as patched:
        stop_at(patched, 6, lambda: (_ for _ in ()).throw(OSError("disk gone")))
        with pytest.raises(OSError, match="disk gone"):
            run(config)
    record = plan_run(config).record
    assert torch.load(record.last_checkpoint, weights_only=True)["global_step"] == 5
    runs.assert_same_result(run(config), straight("plain"))


def test_a_write_that_dies_half_way_leaves_the_checkpoint_before_it(tmp_path, monkeypatch, straight):
    # H31: the save function fails in the middle; no half-written file bears the final name.
    original, calls = torch.save, []

    def half(state, path, *arguments, **options):
        calls.append(path)
        if len(calls) > 2:  # the best weights and the checkpoint of step 6 are complete
            path.write_bytes(b"half")
            raise OSError("killed")
        original(state, path, *arguments, **options)

    config = runs.config(tmp_path, *NOISY)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", half)
        with pytest.raises(OSError, match="killed"):
            run(config)
    record = plan_run(config).record
    assert sorted(p.name for p in record.last_checkpoint.parent.iterdir()) == ["best.pt", "last.ckpt"]
    assert torch.load(record.last_checkpoint, weights_only=True)["global_step"] == 6
    runs.assert_same_result(run(config), straight("plain"))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_a_process_that_is_stopped_goes_on_in_another(tmp_path, scratch_registry, number, status):
    (tmp_path / "fragile.py").write_text(PLUGIN, encoding="utf-8")
    mine = [*NOISY, f"plugins=[{tmp_path}/fragile.py]", "task=fragile"]
    overrides = runs.overrides(tmp_path, *mine)
    stopped = runs.tfexp_process("train", *overrides, END_AT="8", END_WITH=str(int(number)))
    assert stopped.returncode == status
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    if number != signal.SIGKILL:
        assert stopped.stderr.endswith("interrupted; run the same command again to go on\n")
        assert "Traceback" not in stopped.stderr
        assert not (folder / "lease.json").exists()
    record = run(runs.config(tmp_path, *mine))  # in this process, nothing ends it
    assert record.folder == folder
    elsewhere = [o for o in mine if not o.startswith("outputs")]
    straight = run(runs.config(tmp_path, *elsewhere, f"outputs={tmp_path / 'again'}"))
    runs.assert_same_result(record, straight)
