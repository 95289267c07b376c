"""What a record says of the machine."""

import sys

import pytest
import torch

from tfexp.training import machine

CPU = torch.device("cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process reset its own peak")
def test_peak_memory_is_that_of_the_run_and_not_of_the_process():
    large = torch.ones(64 * 2**20)  # 256 MiB
    with_large = machine.peak_memory_bytes(CPU)
    del large
    machine.reset_peak_memory()
    assert machine.peak_memory_bytes(CPU) < with_large - 128 * 2**20


def test_peak_memory_counts_what_comes_after_the_reset():
    machine.reset_peak_memory()
    before = machine.peak_memory_bytes(CPU)
    large = torch.ones(64 * 2**20)
    assert machine.peak_memory_bytes(CPU) > before + 128 * 2**20
    del large


def test_speed_of_a_matrix_product_is_measured():
    assert machine.matmul_flops(CPU, torch.float32) > 1e8  # any machine does a tenth of a gigaflop


def test_versions_name_what_can_change_a_result():
    assert {"tfexp", "python", "torch", "pytorch-lightning", "numpy"} <= machine.versions().keys()
