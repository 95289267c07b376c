"""Where vectors of tokens are kept while decoding: exactly, ahead of need, in a window, or in eight bits.

Every tensor is (B, ..., S, K) with the tokens second to last; the tensors of one store may differ in all
but B and S.
"""

from typing import Self

import torch
from torch import Tensor


class TokenStore:
    """The contract: tensors that grow by tokens."""

    truncates = True

    @property
    def length(self) -> int:
        """Tokens held."""
        raise NotImplementedError

    def append(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Add tokens; returns all that this pass's queries may need, as read by `tensors`."""
        raise NotImplementedError

    def tensors(self) -> tuple[Tensor, ...]:
        """What is held; empty before the first token."""
        raise NotImplementedError

    def reorder(self, rows: Tensor) -> None:
        raise NotImplementedError

    def truncate(self, length: int) -> None:
        raise NotImplementedError

    def fork(self) -> Self:
        raise NotImplementedError

    def numbers(self) -> int:
        """How many numbers are held, those allocated ahead not counted."""
        return sum(t.numel() for t in self.tensors())

    def n_bytes(self) -> int:
        """The memory, allocated ahead included."""
        return sum(t.numel() * t.element_size() for t in self.tensors())


class GrowingStore(TokenStore):
    """Exactly the tokens so far, copied at every step."""

    def __init__(self) -> None:
        self._held: tuple[Tensor, ...] = ()

    @property
    def length(self) -> int:
        return self._held[0].shape[-2] if self._held else 0

    def append(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        pairs = zip(self._held, new, strict=True)
        self._held = tuple(torch.cat(pair, dim=-2) for pair in pairs) if self._held else new
        return self._held

    def tensors(self) -> tuple[Tensor, ...]:
        return self._held

    def reorder(self, rows: Tensor) -> None:
        self._held = tuple(t[rows] for t in self._held)

    def truncate(self, length: int) -> None:
        self._held = tuple(t[..., :length, :] for t in self._held)

    def fork(self) -> Self:
        other = type(self)()
        other._held = self._held  # never changed in place
        return other


class StaticStore(TokenStore):
    """Room allocated ahead: a step writes its token in place and reads a view.

    Args:
        capacity: Tokens to allocate for at first; doubled when they are used up.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self._length = capacity, 0
        self._buffers: tuple[Tensor, ...] = ()

    @property
    def length(self) -> int:
        return self._length

    def append(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        before, n_new = self._length, new[0].shape[-2]
        if not self._buffers or before + n_new > self.capacity:
            self._allocate(new, before + n_new)
        for buffer, tensor in zip(self._buffers, new, strict=True):
            buffer.narrow(-2, before, n_new).copy_(tensor)
        self._length = before + n_new  # last, so that tokens which do not fit change nothing
        return self.tensors()

    def _allocate(self, new: tuple[Tensor, ...], needed: int) -> None:
        before = self._length
        self.capacity = max(self.capacity, 2 * needed if self._buffers else needed)
        grown = tuple(t.new_empty(*t.shape[:-2], self.capacity, t.shape[-1]) for t in new)
        for buffer, old in zip(grown, self._buffers, strict=False):
            buffer.narrow(-2, 0, before).copy_(old.narrow(-2, 0, before))
        self._buffers = grown

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(b.narrow(-2, 0, self._length) for b in self._buffers)

    def reorder(self, rows: Tensor) -> None:
        # Only what is used is copied; a permutation in place would need a second buffer all the same.
        chosen = tuple(t.index_select(0, rows) for t in self.tensors())
        if self._buffers and len(rows) == len(self._buffers[0]):
            for buffer, tensor in zip(self._buffers, chosen, strict=True):
                buffer.narrow(-2, 0, self._length).copy_(tensor)
            return
        grown = tuple(t.new_empty(*t.shape[:-2], self.capacity, t.shape[-1]) for t in chosen)
        for buffer, tensor in zip(grown, chosen, strict=True):
            buffer.narrow(-2, 0, self._length).copy_(tensor)
        self._buffers = grown

    def truncate(self, length: int) -> None:
        self._length = min(length, self._length)

    def fork(self) -> Self:
        other = type(self)(self.capacity)
        other._length, other._buffers = self._length, tuple(b.clone() for b in self._buffers)
        return other

    def n_bytes(self) -> int:
        return sum(b.numel() * b.element_size() for b in self._buffers)


class WindowStore(TokenStore):
    """The last `window` tokens, written into a buffer of twice that: a copy every `window` steps.

    What is read stays in the order of the text, so masks and kernels need not know of a ring. Queries of
    one pass see up to window + T tokens, since the first of them may look at more than the last leaves.

    Args:
        window: Tokens that a query sees, itself included.
    """

    truncates = False  # what fell out of the window cannot be had back

    def __init__(self, window: int) -> None:
        self.window, self._start, self._end = window, 0, 0
        self._buffers: tuple[Tensor, ...] = ()

    @property
    def length(self) -> int:
        return self._end - self._start

    def append(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        n_new = new[0].shape[-2]
        if n_new > 1:
            return self._append_many(new)
        if not self._buffers:
            self._buffers = tuple(t.new_empty(*t.shape[:-2], 2 * self.window, t.shape[-1]) for t in new)
        elif self._end == 2 * self.window:  # the back is full: what the window holds goes to the front
            for buffer, held in zip(self._buffers, self.tensors(), strict=True):
                buffer.narrow(-2, 0, self.length).copy_(held)  # apart: at most `window` of 2 * window
            self._start, self._end = 0, self.length
        for buffer, tensor in zip(self._buffers, new, strict=True):
            buffer.narrow(-2, self._end, 1).copy_(tensor)
        self._end += 1
        self._start = max(self._start, self._end - self.window)
        return self.tensors()

    def _append_many(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        pairs = zip(self.tensors(), new, strict=True)
        seen = tuple(torch.cat(pair, dim=-2) for pair in pairs) if self._buffers else new
        self._fill(tuple(t[..., -self.window :, :] for t in seen))
        return seen

    def _fill(self, held: tuple[Tensor, ...]) -> None:
        self._buffers = tuple(t.new_empty(*t.shape[:-2], 2 * self.window, t.shape[-1]) for t in held)
        self._start, self._end = 0, held[0].shape[-2]
        for buffer, tensor in zip(self._buffers, held, strict=True):
            buffer.narrow(-2, 0, self._end).copy_(tensor)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(b.narrow(-2, self._start, self.length) for b in self._buffers)

    def reorder(self, rows: Tensor) -> None:
        if self._buffers:
            self._fill(tuple(t.index_select(0, rows) for t in self.tensors()))

    def fork(self) -> Self:
        other = type(self)(self.window)
        if self._buffers:
            other._fill(self.tensors())
        return other

    def n_bytes(self) -> int:
        return sum(b.numel() * b.element_size() for b in self._buffers)


class Int8Store(TokenStore):
    """Eight-bit numbers, each vector with the scale of its largest entry: round(127 x / max|x|).

    A quarter of float32's memory and a little for the scales; read back with an error of at most
    max|x| / 254 a number.
    """

    def __init__(self) -> None:
        self._held, self._dtypes = GrowingStore(), ()

    @property
    def length(self) -> int:
        return self._held.length

    def append(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self._dtypes = tuple(t.dtype for t in new)
        self._held.append(tuple(part for tensor in new for part in quantise(tensor)))
        return self.tensors()

    def tensors(self) -> tuple[Tensor, ...]:
        held = self._held.tensors()
        parts = zip(held[::2], held[1::2], self._dtypes, strict=True) if held else ()
        return tuple(numbers.to(dtype) * scale.to(dtype) for numbers, scale, dtype in parts)

    def reorder(self, rows: Tensor) -> None:
        self._held.reorder(rows)

    def truncate(self, length: int) -> None:
        self._held.truncate(length)

    def fork(self) -> Self:
        other = type(self)()
        other._held, other._dtypes = self._held.fork(), self._dtypes
        return other

    def numbers(self) -> int:
        return sum(t.numel() for t in self._held.tensors()[::2])

    def n_bytes(self) -> int:
        return self._held.n_bytes()


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """(..., K) -> int8 (..., K) and scales (..., 1) in float32."""
    scale = x.abs().amax(dim=-1, keepdim=True).float() / 127
    numbers = (x.float() / scale.clamp(min=torch.finfo(torch.float32).tiny)).round()
    return numbers.to(torch.int8), scale
