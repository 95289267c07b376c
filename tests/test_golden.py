"""Golden values of embeddings, positions, feed-forward and norms, each under its number.

Worked out by hand or in the papers. G01 sets the teaching size: 2 sentences, 3 words, width 8, 2 heads, inner
width 16, 10 words. Attention is in test_golden_attention.py, whole models are in test_golden_model.py.
"""

import pytest
import torch

from tests.components.cases import Case
from tests.tiny import close, normal
from tfexp.registry import create

DIGITS = 5e-8  # the golden values have 7 digits after the point
PE_ROWS = {
    "G05": (0, [0, 1, 0, 1, 0, 1, 0, 1]),
    "G06": (1, [0.8414710, 0.5403023, 0.0998334, 0.9950042, 0.0099998, 0.9999500, 0.0010000, 0.9999995]),
    "G07-row_2": (2, [0.9092974, -0.4161468, 0.1986693, 0.9800666, 0.0199987, 0.9998000, 0.0020000, 0.9999980]),
    "G07-row_3": (3, [0.1411200, -0.9899925, 0.2955202, 0.9553365, 0.0299955, 0.9995500, 0.0030000, 0.9999955]),
}
NORMS = {
    "G30": ("inside", 1e-12, [1.0, 3.0], 1.0),
    "G31": ("inside", 1e-5, [1.0, 3.0], 0.9999950),
    "G32": ("sigma", 1e-5, [1.0, 3.0], 0.9999900),
    "G33-inside": ("inside", 1e-5, [2.0, 2.002], 0.3015113),
    "G33-sigma": ("sigma", 1e-5, [2.0, 2.002], 0.9900990),
}
ACTIVATIONS = {"gelu": 0.8413447, "gelu_tanh": 0.8411920, "silu": 0.7310586, "relu": 1.0, "relu_squared": 1.0}


def sinusoid(d_model: int = 8):
    return create("position", {"name": "sinusoidal"}, {"d_model": d_model})


def load(layer: torch.nn.Linear, rows: list[list[float]]) -> None:
    """Set a map from the matrix W that the golden value writes, (n_in, n_out)."""
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rows).T)


# --- embeddings and positions ----------------------------------------------------------------------


def test_G02_embedding_lookup():
    embedding = create("embedding", {"name": "token"}, {"vocab_size": 10, "d_model": 8})
    ids = torch.tensor([[1, 2, 3], [9, 0, 1]])
    assert embedding(ids).shape == (2, 3, 8)
    assert torch.equal(embedding(ids)[1, 0], embedding.token.weight[9])
    assert sum(p.numel() for p in embedding.parameters()) == 80


@pytest.mark.parametrize(("d_model", "factor"), [(8, 2.8284271), (512, 22.6274170)], ids=["G03-8", "G03-512"])
def test_G03_embedding_scale_is_a_switch(d_model, factor):
    ids = torch.tensor([[1, 2, 3]])
    made = [create("embedding", {"name": "token", "scale": on}, {"vocab_size": 4, "d_model": d_model}) for on in (0, 1)]
    made[1].load_state_dict(made[0].state_dict())
    plain, scaled = (m.double()(ids) for m in made)
    close(scaled / plain, torch.full_like(plain, factor), atol=DIGITS)


def test_G04_denominators_are_powers_of_ten():
    angles = torch.asin(sinusoid().table(torch.tensor(1))[0::2])
    close(1 / angles, [1, 10, 100, 1000], atol=1e-9)


@pytest.mark.parametrize(("place", "row"), PE_ROWS.values(), ids=PE_ROWS)
def test_sinusoid_row(place, row):
    close(sinusoid().table(torch.tensor(place)), row, atol=DIGITS)


def test_G08_positions_are_shared_by_the_batch_and_tell_places_apart():
    x = normal(1, 1, 8).expand(2, 3, 8)  # the same token everywhere
    out = sinusoid().embed(x, torch.arange(3))
    assert torch.equal(out[0], out[1])
    assert not torch.equal(out[0, 0], out[0, 1])


@pytest.mark.parametrize(("name", "count"), [("sinusoidal", 0), ("learned", 16 * 8)], ids=["G09-fixed", "G09-learned"])
def test_G09_parameters_of_positions(name, count):
    position = create("position", {"name": name}, {"d_model": 8, "max_seq_len": 16})
    assert sum(p.numel() for p in position.parameters()) == count


def test_G10_neighbours_are_equally_far_apart():
    steps = sinusoid().table(torch.arange(200)).diff(dim=0).norm(dim=-1)
    close(steps, torch.full_like(steps, 0.9640996), atol=DIGITS)


@pytest.mark.parametrize("k", [1, 2, 7, 50])
def test_G11_a_shift_is_a_rotation_free_of_the_place(k):
    table, omega = sinusoid().table(torch.arange(200)), torch.tensor([1, 0.1, 0.01, 0.001], dtype=torch.float64)
    sine, cosine = table[:-k, 0::2], table[:-k, 1::2]
    close(table[k:, 0::2], sine * (k * omega).cos() + cosine * (k * omega).sin())
    close(table[k:, 1::2], cosine * (k * omega).cos() - sine * (k * omega).sin())
    products = (table[:-k] * table[k:]).sum(-1)
    close(products, (k * omega).cos().sum().expand_as(products))


# --- feed-forward and norms --------------------------------------------------------------------------


def test_G28_feed_forward_numbers():
    module = Case("feedforward", "mlp", {"activation": "relu"}).make(d_model=2, d_ff=3)
    load(module.inner, [[1, 0, 1], [0, 1, -1]])
    load(module.outer, [[1, 0], [0, 1], [1, -1]])
    u = torch.tensor([1.0, -2.0], dtype=torch.float64)
    close(module.inner(u), [1, -2, 3])
    close(module(u), [4, -3])
    close(create("residual", {"name": "plain"}, {})(u, module(u)), [5, -5])


@pytest.mark.parametrize("name", ["mlp", "glu"])
def test_G29_feed_forward_works_on_each_position_alone(name):
    module, x = Case("feedforward", name).make(), normal(2, 4, 8)
    changed = x.clone()
    changed[:, 2] += 1
    out, other = module(x), module(changed)
    assert torch.equal(out[:, [0, 1, 3]], other[:, [0, 1, 3]])
    assert not torch.equal(out[:, 2], other[:, 2])


@pytest.mark.parametrize(("name", "value"), ACTIVATIONS.items(), ids=[f"G29-{name}" for name in ACTIVATIONS])
def test_G29_the_activation_is_open(name, value):
    module = Case("feedforward", "mlp", {"activation": name}).make(d_model=1, d_ff=1)
    load(module.inner, [[1]])
    load(module.outer, [[1]])
    close(module(torch.ones(1, dtype=torch.float64)), [value], atol=DIGITS)


@pytest.mark.parametrize(("place", "eps", "x", "size"), NORMS.values(), ids=NORMS)
def test_layernorm_numbers(place, eps, x, size):
    norm = create("norm", {"name": "layernorm", "eps": eps, "eps_place": place}, {"d_model": 2}).double()
    close(norm(torch.tensor(x, dtype=torch.float64)), [-size, size], atol=DIGITS)


def test_rmsnorm_numbers():
    norm = create("norm", {"name": "rmsnorm", "eps": 1e-12}, {"d_model": 2}).double()
    close(norm(torch.tensor([1.0, 3.0], dtype=torch.float64)), [0.4472136, 1.3416408], atol=DIGITS)


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_G34_norms_keep_no_running_statistics(name):
    norm, x = Case("norm", name).make(), normal(4, 3, 8)
    assert list(norm.buffers()) == []
    trained = norm.train()(x)
    assert torch.equal(norm.eval()(x), trained)
    assert torch.equal(norm(x[1:2, 2:]), trained[1:2, 2:])
