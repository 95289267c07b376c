"""Shared fixtures: a fixed seed for every test, and a registry that forgets what a test registered."""

import os

import pytest
import torch
from hypothesis import settings

from tfexp import registry

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # everything here runs on the CPU
torch.set_num_threads(1)  # tiny tensors: a second thread costs more than it brings
settings.register_profile("fast", max_examples=25, derandomize=True, deadline=None, database=None)
settings.load_profile("fast")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def scratch_registry():
    """The registry; what the test registers or discovers in it from outside tfexp is undone after it."""
    yield registry
    for components in registry._components.values():
        for name in [n for n, c in components.items() if not c.target.__module__.startswith("tfexp.")]:
            del components[name]
    registry._discovered -= {name for name in registry._discovered if not name.startswith("tfexp.")}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A finished tiny run, its text and outputs beside it; tests read it and change nothing."""
    from tests import runs  # brings Lightning with it, which most tests do not need
    from tfexp.training.run import run

    return run(runs.config(tmp_path_factory.mktemp("trained"), "logger=csv", "optim.lr=3e-3"))
