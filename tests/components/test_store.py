"""Where vectors of tokens are kept: what is read back, whatever is done to the rows and the length."""

import pytest
import torch

from tests.tiny import close, normal
from tfexp.components.store import GrowingStore, Int8Store, StaticStore, TokenStore, WindowStore, quantise

WIDTHS = (4, 3)  # of the two tensors of each store here
EXACT = {"growing": GrowingStore, "static": lambda: StaticStore(4), "static_from_nothing": lambda: StaticStore(0)}
EVERY = {**EXACT, "int8": Int8Store, "window": lambda: WindowStore(3), "window_of_one": lambda: WindowStore(1)}
CHUNKS = {"one_by_one": [1] * 7, "prefill": [4, 1, 1, 1], "chunks": [2, 3, 2], "whole": [7], "late": [1, 1, 5]}


def tokens(length: int = 7, batch: int = 2) -> tuple[torch.Tensor, ...]:
    return tuple(normal(batch, 2, length, width, seed=width) for width in WIDTHS)


def pieces(chunks: list[int]):
    return zip(*(t.split(chunks, dim=2) for t in tokens(sum(chunks))), strict=True)


def filled(store: TokenStore, chunks: list[int]) -> TokenStore:
    for piece in pieces(chunks):
        store.append(piece)
    return store


def holds(store: TokenStore, expected, atol: float = 0.0) -> None:
    assert store.length == expected[0].shape[2]
    for held, wanted in zip(store.tensors(), expected, strict=True):
        close(held, wanted, atol)


def last(store: TokenStore, length: int = 7) -> slice:
    return slice(max(length - store.window, 0) if isinstance(store, WindowStore) else 0, length)


def error_bound(store: TokenStore) -> float:
    return max(t.abs().max().item() for t in tokens()) / 254 * (1 + 1e-5) if isinstance(store, Int8Store) else 0.0


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_what_was_added_is_read_back_in_order(make, chunks):
    store = filled(make(), chunks)
    holds(store, [t[:, :, last(store)] for t in tokens()], error_bound(store))


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_a_pass_is_given_all_that_its_queries_may_look_at(make, chunks):
    store, seen = make(), 0
    for piece in pieces(chunks):
        given = store.append(piece)
        before, seen = seen, seen + piece[0].shape[2]
        needed = max(before - store.window + 1, 0) if isinstance(store, WindowStore) else 0
        for t, whole in zip(given, tokens(), strict=True):
            close(t[:, :, -(seen - needed) :], whole[:, :, needed:seen], error_bound(store))


@pytest.mark.parametrize("rows", [[1, 0], [0, 0, 1], [1]], ids=["swap", "repeat", "drop"])
@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_rows_are_chosen_and_the_store_goes_on(make, rows):
    store, chosen = make(), torch.tensor(rows)
    whole = [t[chosen] for t in tokens()]
    store.append(tuple(t[:, :, :5] for t in tokens()))
    store.reorder(chosen)
    for t in (5, 6):
        store.append(tuple(part[:, :, t : t + 1] for part in whole))
    holds(store, [part[:, :, last(store)] for part in whole], error_bound(store))


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_a_fork_and_its_origin_go_their_own_ways(make):
    store = make()
    store.append(tuple(t[:, :, :4] for t in tokens()))
    other = store.fork()
    for t in range(4, 7):
        store.append(tuple(part[:, :, t : t + 1] for part in tokens()))
        other.append(tuple(-part[:, :, t : t + 1] for part in tokens()))
    turned = [torch.cat((t[:, :, :4], -t[:, :, 4:]), dim=2) for t in tokens()]
    holds(store, [t[:, :, last(store)] for t in tokens()], error_bound(store))
    holds(other, [t[:, :, last(store)] for t in turned], error_bound(store))


def test_a_fork_that_shares_its_buffer_is_seen():
    store = StaticStore(8)
    store.append(tuple(t[:, :, :4] for t in tokens()))
    other = StaticStore(8)
    other._length, other._buffers = store._length, store._buffers
    store.append(tuple(t[:, :, 4:5] for t in tokens()))
    other.append(tuple(-t[:, :, 4:5] for t in tokens()))
    with pytest.raises(AssertionError):
        holds(store, [t[:, :, :5] for t in tokens()])


@pytest.mark.parametrize("make", [*EXACT.values(), Int8Store], ids=[*EXACT, "int8"])
def test_a_store_is_cut_back_and_goes_on(make):
    store = make()
    store.append(tuple(torch.cat((t[:, :, :2], -t[:, :, 2:5]), dim=2) for t in tokens()))
    store.truncate(2)
    assert store.length == 2
    for t in range(2, 7):
        store.append(tuple(part[:, :, t : t + 1] for part in tokens()))
    holds(store, tokens(), error_bound(store))


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_an_empty_store_can_be_chosen_from_and_forked(make):
    store = make()
    store.reorder(torch.tensor([0, 1]))
    assert (store.length, store.numbers(), store.n_bytes(), store.tensors()) == (0, 0, 0, ())
    holds(filled(store.fork(), [2]), [t[:, :, last(store, 2)] for t in tokens(2)], error_bound(store))


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("length", [1, 3, 7])
def test_numbers_are_those_held_and_bytes_those_allocated(make, length):
    store = filled(make(), [1] * length)
    held = min(length, store.window) if isinstance(store, WindowStore) else length
    assert store.numbers() == 2 * 2 * held * sum(WIDTHS)
    assert store.n_bytes() >= (1 if isinstance(store, Int8Store) else 8) * store.numbers()


# --- static ----------------------------------------------------------------------------------------


def test_a_static_store_grows_by_doubling_and_loses_nothing():
    store, capacities = StaticStore(2), []
    for t in range(7):
        store.append(tuple(part[:, :, t : t + 1] for part in tokens()))
        capacities.append(store.capacity)
        holds(store, [part[:, :, : t + 1] for part in tokens()])
    assert capacities == [2, 2, 6, 6, 6, 6, 14]  # twice what is needed
    assert store.n_bytes() == 8 * 2 * 2 * 14 * sum(WIDTHS)


def test_a_static_store_writes_in_place():
    store = StaticStore(8)
    first = store.append(tuple(t[:, :, :4] for t in tokens()))[0].data_ptr()
    assert store.append(tuple(t[:, :, 4:5] for t in tokens()))[0].data_ptr() == first
    store.reorder(torch.tensor([1, 0]))
    assert store.tensors()[0].data_ptr() == first


# --- window ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("chunks", [[1] * 20, [6, 1, 1, 5, 3, 1, 1, 1, 1], [20]], ids=["one_by_one", "mixed", "whole"])
def test_a_window_stays_within_its_bound_and_its_buffer(window, chunks):
    store = WindowStore(window)
    for piece in pieces(chunks):
        store.append(piece)
        assert store.length <= window
        assert store.n_bytes() == 8 * 2 * 2 * 2 * window * sum(WIDTHS)
    holds(store, [t[:, :, 20 - window :] for t in tokens(20)])


def test_a_window_cannot_be_cut_back():
    assert not WindowStore(3).truncates
    with pytest.raises(NotImplementedError):
        WindowStore(3).truncate(1)


# --- eight bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_eight_bits_err_by_half_a_step_of_each_vector(dtype):
    x = (normal(3, 2, 9, 16) * torch.logspace(-6, 6, 9, dtype=torch.float64).view(9, 1)).to(dtype)
    store = Int8Store()
    (read,) = store.append((x,))
    assert read.dtype == dtype
    step = x.double().abs().amax(dim=-1, keepdim=True) / 127
    rounding = (
        x.double().abs() * torch.finfo(dtype).eps * 2 + step * 1e-4
    )  # of the products in dtype, of a float32 scale
    assert ((read.double() - x.double()).abs() <= step / 2 + rounding).all()


def test_eight_bits_keep_zeros_and_the_largest_number():
    numbers, scale = quantise(torch.tensor([[0.0, 0.0], [2.0, -1.0], [1e-42, 0.0]]))
    assert numbers.tolist()[:2] == [[0, 0], [127, -64]]
    assert scale[0].item() == 0.0
    assert numbers.abs().max() <= 127


def test_four_bits_would_be_seen():
    x = normal(3, 2, 9, 16)
    step = x.abs().amax(dim=-1, keepdim=True) / 7
    with pytest.raises(AssertionError):
        close((x / step).round() * step, x, error_bound(Int8Store()))


def test_eight_bits_take_a_quarter_of_the_memory_and_a_scale_a_vector():
    store = Int8Store()
    store.append((normal(2, 2, 5, 64).float(),))
    assert store.n_bytes() == 2 * 2 * 5 * (64 + 4)


UNFILLED = {
    "length": lambda store: store.length,
    "append": lambda store: store.append(()),
    "tensors": lambda store: store.tensors(),
    "reorder": lambda store: store.reorder(torch.tensor([0])),
    "truncate": lambda store: store.truncate(0),
    "fork": lambda store: store.fork(),
}


@pytest.mark.parametrize("call", UNFILLED.values(), ids=UNFILLED)
def test_a_store_that_leaves_the_contract_open_says_so(call):
    with pytest.raises(NotImplementedError):
        call(TokenStore())
