import subprocess
import sys

import numpy as np
import pytest
import torch

from tfexp.streams import numpy_stream, stream_seed, torch_stream

# Worked out with hashlib alone: the upper 63 bits of blake2b("seed|name|index"), little end first.
GOLDEN = [
    (0, "batch", 0, 14003829280284587),
    (3, "init/embedding.token.weight", 0, 2055472514287985198),
    (3, "dropout", 17, 2648752399846243010),
]
PAIRS = {
    "seed": ((0, "batch", 0), (1, "batch", 0)),
    "name": ((0, "batch", 0), (0, "order", 0)),
    "index": ((0, "batch", 0), (0, "batch", 1)),
    "seed_and_index_do_not_run_together": ((1, "batch", 11), (11, "batch", 1)),
}


@pytest.mark.parametrize(("seed", "name", "index", "expected"), GOLDEN, ids=[row[1] for row in GOLDEN])
def test_stream_seed_is_the_same_on_every_machine(seed, name, index, expected):
    assert stream_seed(seed, name, index) == expected
    assert torch_stream(seed, name, index).initial_seed() == expected


@pytest.mark.parametrize(("one", "other"), PAIRS.values(), ids=PAIRS)
def test_seed_name_and_index_each_make_another_stream(one, other):
    assert stream_seed(*one) != stream_seed(*other)
    assert not torch.equal(torch.rand(4, generator=torch_stream(*one)), torch.rand(4, generator=torch_stream(*other)))
    assert (numpy_stream(*one).random(4) != numpy_stream(*other).random(4)).all()


def test_what_was_drawn_before_changes_nothing():
    first = numpy_stream(0, "batch").random(4), torch.rand(4, generator=torch_stream(0, "batch"))
    torch.rand(7)
    np.testing.assert_array_equal(numpy_stream(0, "batch").random(4), first[0])
    assert torch.equal(torch.rand(4, generator=torch_stream(0, "batch")), first[1])


def test_numpy_stream_gives_the_recorded_draw():
    # NumPy promises that the raw Philox stream never changes; integers() is stable in practice.
    assert numpy_stream(0, "batch").integers(0, 1000, 4).tolist() == [907, 39, 700, 76]


def test_a_stream_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    torch.rand(4, generator=torch_stream(0, "batch"))
    assert torch.equal(torch.get_rng_state(), before)


def test_every_seed_fits_torch_and_numpy():
    seeds = [stream_seed(seed, "batch", index) for seed in range(20) for index in range(50)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_importing_streams_needs_no_torch():
    code = "import sys, tfexp.streams; print('torch' in sys.modules, 'numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]
