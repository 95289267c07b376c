import json
import os
import socket
import subprocess
import sys
import time

import pytest

from tests import runs
from tfexp.errors import RunError
from tfexp.training import lease as lease_module
from tfexp.training.lease import EXPIRE_SECONDS, RENEW_SECONDS, Lease, holder_of
from tfexp.training.record import Record
from tfexp.training.run import plan_run, run


def claim(folder, pid: int, host: str, age: float) -> None:
    """A lease as another process would have left it."""
    now = time.time() - age
    value = {"pid": pid, "host": host, "since": now, "renewed": now}
    (folder / "lease.json").write_text(json.dumps(value), encoding="utf-8")


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


HERE = socket.gethostname()
GONE = {
    "dead_on_this_host": lambda folder: claim(folder, dead_pid(), HERE, 0),
    "silent_on_another_host": lambda folder: claim(folder, 1, "another-host", EXPIRE_SECONDS + 1),
    "silent_here": lambda folder: claim(folder, os.getpid(), HERE, EXPIRE_SECONDS + 1),
    "half_written": lambda folder: (folder / "lease.json").write_text('{"pid": 1', encoding="utf-8"),
    "nobody": lambda folder: None,
}
ALIVE = {
    "on_this_host": lambda folder: claim(folder, os.getppid(), HERE, 0),
    "on_another_host": lambda folder: claim(folder, 1, "another-host", EXPIRE_SECONDS / 2),
}


@pytest.mark.parametrize("leave", GONE.values(), ids=GONE)
def test_a_stale_lease_is_taken_over(tmp_path, leave):
    leave(tmp_path)
    assert holder_of(tmp_path) is None
    with Lease(tmp_path):
        assert holder_of(tmp_path)["pid"] == os.getpid()
    assert not (tmp_path / "lease.json").exists()


@pytest.mark.parametrize("leave", ALIVE.values(), ids=ALIVE)
def test_a_live_lease_is_refused_and_left_as_it_is(tmp_path, leave):
    leave(tmp_path)
    before = (tmp_path / "lease.json").read_text(encoding="utf-8")
    message = r"is being trained by process \d+ on .* since \d\d:\d\d:\d\d; wait for it, or change the config$"
    with pytest.raises(RunError, match=message), Lease(tmp_path):
        pass
    assert (tmp_path / "lease.json").read_text(encoding="utf-8") == before


def test_a_process_that_may_not_be_asked_counts_as_alive(tmp_path, monkeypatch):
    def refuse(pid, number):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    claim(tmp_path, 1, HERE, 0)
    assert holder_of(tmp_path)["pid"] == 1


def test_a_lease_is_renewed_while_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_module, "RENEW_SECONDS", 0.01)
    with Lease(tmp_path) as lease:
        first = holder_of(tmp_path)["renewed"]
        deadline = time.monotonic() + 10
        while holder_of(tmp_path)["renewed"] == first:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert holder_of(tmp_path)["since"] == pytest.approx(lease.since)
    assert RENEW_SECONDS * 5 < EXPIRE_SECONDS


def test_a_disk_that_is_full_for_a_moment_does_not_end_the_lease(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_module, "RENEW_SECONDS", 0.01)
    with Lease(tmp_path) as lease:
        write, calls = lease._write, []

        def full_twice():
            calls.append(1)
            if len(calls) <= 2:
                raise OSError(28, "No space left on device")
            write()

        lease._write = full_twice
        deadline = time.monotonic() + 10
        while len(calls) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert lease._thread.is_alive()


def test_a_lease_is_given_back_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), Lease(tmp_path):
        raise ZeroDivisionError
    assert not (tmp_path / "lease.json").exists()


def test_a_run_that_somebody_trains_is_left_alone(tmp_path):
    config = runs.config(tmp_path)
    record = plan_run(config).record
    record.create()
    claim(record.folder, os.getppid(), HERE, 0)
    with pytest.raises(RunError, match="is being trained by process"):
        run(config)
    assert record.state is None
    claim(record.folder, dead_pid(), HERE, 0)
    assert run(config).state == "complete"


def test_two_processes_with_two_seeds_make_two_folders(tmp_path):
    # H35, and once more with one config: one record, and the second process says who has it.
    overrides = runs.overrides(tmp_path, "trainer.max_steps=2", "trainer.val_every=2")
    both = [runs.start("train", *overrides, f"seed={seed}") for seed in (1, 2)]
    assert [process.communicate(timeout=120)[0] for process in both] == ["", ""]
    assert [process.returncode for process in both] == [0, 0]
    records = [Record(p) for p in sorted((tmp_path / "outputs" / "runs").iterdir())]
    assert [record.config().seed for record in records] == [1, 2]
    assert all([line["step"] for line in r.metrics()] == [2, 2] for r in records)


def test_two_processes_with_one_config_make_one_record(tmp_path):
    overrides = runs.overrides(tmp_path, "trainer.max_steps=400", "trainer.val_every=400", "trainer.log_every=100")
    both = [runs.start("train", *overrides) for _ in range(2)]
    texts = [process.communicate(timeout=120)[1] for process in both]
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    record = Record(folder)
    assert record.state == "complete"
    assert [line["step"] for line in record.metrics()] == [100, 200, 300, 400, 400]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 0], [0, 1])  # the second came while the first trained, or after it
    for process, text in zip(both, texts, strict=True):
        if process.returncode:
            assert text.startswith(f"error: {folder} is being trained by process ")
            assert len(text.splitlines()) == 1
