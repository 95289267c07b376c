"""Named random streams: every random draw of a run comes from `(seed, name, index)`.

Because a draw depends on its name and index alone, and not on what was drawn before, two variants
of a study share the batches and the initial parameters that they have in common, the number of
loader workers changes nothing, and resuming at a step is setting one integer.

Names in use: `init/<parameter path>` (index 0), `batch` (index: micro-batch), `order` (index:
epoch), `dropout` and `mask` (index: micro-batch), `mask/eval` (index: block),
`data/<source>/<part>` (of rules), `generate` (index: prompt).
"""

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    import torch


def stream_seed(seed: int, name: str, index: int = 0) -> int:
    """A 63-bit integer that is a fixed function of the three; the same on every machine."""
    digest = blake2b(f"{seed}|{name}|{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def numpy_stream(seed: int, name: str, index: int = 0) -> "numpy.random.Generator":
    """A NumPy generator at the start of the stream `(seed, name, index)`."""
    import numpy as np

    return np.random.Generator(np.random.Philox(stream_seed(seed, name, index)))


def torch_stream(seed: int, name: str, index: int = 0) -> "torch.Generator":
    """A CPU torch generator at the start of the stream `(seed, name, index)`."""
    import torch

    return torch.Generator().manual_seed(stream_seed(seed, name, index))
