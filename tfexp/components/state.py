"""What attention layers remember of the tokens that were decoded so far.

A state belongs to one call. Each kind knows how many numbers it holds, and how to follow when rows of
the batch are chosen, repeated or dropped, and when the text is cut back.
"""

from dataclasses import dataclass
from typing import Literal, Self

from torch import Tensor

from tfexp.components.store import GrowingStore, Int8Store, StaticStore, TokenStore, WindowStore

Storage = Literal["growing", "static", "int8"]


@dataclass(frozen=True)
class StatePlan:
    """How a layer is to keep what it remembers per token.

    Args:
        storage: `growing` holds exactly the tokens so far; `static` allocates ahead, so that a step writes
            in place; `int8` holds eight-bit numbers with a scale for each vector, which is not exact.
        capacity: Tokens that `static` allocates for at first; it doubles when they are used up.
        cross: The state is of attention to an encoder.
    """

    storage: Storage = "growing"
    capacity: int = 0
    cross: bool = False

    def store(self, window: int | None = None) -> TokenStore:
        """An empty store; with a window, of the last so many tokens only."""
        if window is not None:
            return WindowStore(window)
        if self.storage == "growing" or self.cross:
            return GrowingStore()
        return StaticStore(self.capacity) if self.storage == "static" else Int8Store()


class AttentionState:
    """The contract: what a layer remembers between two passes."""

    truncates: bool = True
    """Whether `truncate` serves; without, an earlier state must be kept with `fork` and fed again."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may come several times."""
        raise NotImplementedError

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        raise NotImplementedError

    def fork(self) -> Self:
        """A state that goes on from here by itself; neither sees what the other adds."""
        raise NotImplementedError

    def numbers(self) -> int:
        """How many numbers are held, those allocated ahead not counted."""
        raise NotImplementedError

    def n_bytes(self) -> int:
        """The memory of what is held, allocated ahead included."""
        raise NotImplementedError


class TokenState(AttentionState):
    """Some vectors for each token, such as its keys and values.

    Args:
        store: Where they are kept.
    """

    def __init__(self, store: TokenStore) -> None:
        self.store = store

    @property
    def length(self) -> int:
        """Tokens held; a window holds fewer than there were."""
        return self.store.length

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is held, each (B, ..., S, K)."""
        return self.store.tensors()

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Add the vectors of new tokens, each (B, ..., T, K); returns those of all that are held."""
        return self.store.append(new)

    def reorder(self, rows: Tensor) -> None:
        self.store.reorder(rows)

    def truncate(self, length: int) -> None:
        self.store.truncate(length)

    def fork(self) -> Self:
        return type(self)(self.store.fork())

    @property
    def truncates(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # the store knows
        return self.store.truncates

    def numbers(self) -> int:
        return self.store.numbers()

    def n_bytes(self) -> int:
        return self.store.n_bytes()


class CrossState(TokenState):
    """Keys and values of an encoder's output: computed once, and not cut back with the target."""

    def truncate(self, length: int) -> None:
        pass


class RecurrentState(AttentionState):
    """A summary of all tokens whose size does not depend on their number; nothing of it can be taken back.

    Args:
        tensors: Each with the batch first; replaced as a whole by `update`. Empty before the first pass.
    """

    truncates = False

    def __init__(self, tensors: tuple[Tensor, ...] = ()) -> None:
        self.tensors = tensors

    def update(self, *tensors: Tensor) -> None:
        """What is remembered from now on; tensors are never changed in place, so that forks may share them."""
        self.tensors = tensors

    def reorder(self, rows: Tensor) -> None:
        self.tensors = tuple(t[rows] for t in self.tensors)

    def fork(self) -> Self:
        return type(self)(self.tensors)

    def numbers(self) -> int:
        return sum(t.numel() for t in self.tensors)

    def n_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors)


class CrossSummary(RecurrentState):
    """A summary of an encoder's output: computed once, and not cut back with the target."""

    truncates = True

    def truncate(self, length: int) -> None:
        pass
