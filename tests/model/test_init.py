"""Initial values: one stream a path, so variants share what they have in common; tied matrices; checkpoints."""

import pytest
import torch

from tests.tiny import D, V, ids, model
from tfexp.components.base import FeedForward
from tfexp.model.count import count_parameters
from tfexp.registry import register

VARIANTS = {
    "position": {"position": "learned"},
    "norm": {"norm": "rmsnorm"},
    "placement": {"norm_placement": "post"},
    "score": {"attention": {"name": "softmax", "score": "additive"}},
    "deeper": {"n_layers": 3, "init": "xavier"},
    "attention_bias": {"attention": {"name": "softmax", "bias": True}},
    "feedforward": {"feedforward": "glu"},
    "head_bias": {"head": {"name": "lm", "bias": True}},
    "untied": {"tie_embeddings": False},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_one_seed_gives_one_model(changes):
    one, again, other = model(3, **changes), model(3, **changes), model(4, **changes)
    assert torch.equal(one(ids()).logits, again(ids()).logits)
    assert not torch.equal(one(ids()).logits, other(ids()).logits)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_variants_share_every_parameter_that_they_have_in_common(changes):
    same_recipe = {"init": changes["init"]} if "init" in changes else {}
    base, variant = (dict(m.named_parameters()) for m in (model(3, **same_recipe), model(3, **changes)))
    shared = [name for name in base if name in variant and base[name].shape == variant[name].shape]
    assert len(shared) >= 8
    assert [name for name in shared if not torch.equal(base[name], variant[name])] == []


def test_a_common_generator_for_all_parameters_would_be_seen():
    def drawn(**changes):
        made, generator = model(**changes), torch.Generator().manual_seed(3)
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, generator=generator)
        return made.state_dict()

    base, variant = drawn(), drawn(position="learned")
    with pytest.raises(AssertionError):
        assert all(torch.equal(base[name], variant[name]) for name in base)


def test_every_path_has_draws_of_its_own():
    state = model(tie_embeddings=False).state_dict()
    square = [w for name, w in state.items() if w.shape == (D, D)]
    assert len(square) == 8
    assert len({w.flatten()[0].item() for w in square}) == 8


def test_biases_start_at_zero_and_norms_at_one():
    with_bias = {"attention": {"name": "softmax", "bias": True}, "feedforward": {"name": "mlp", "bias": True}}
    state = model(**with_bias, head={"name": "lm", "bias": True}).state_dict()
    biases = {name: w for name, w in state.items() if name.endswith("bias")}
    norms = {name: w for name, w in state.items() if "norm" in name and name.endswith("weight")}
    assert len(biases) == 2 * (4 + 2 + 2) + 1 + 1
    assert all((w == 0).all() for w in biases.values())
    assert len(norms) == 5
    assert all((w == 1).all() for w in norms.values())


def test_building_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    model(3)
    assert torch.equal(torch.rand(1), expected)


class Drawn(FeedForward):
    """Draws a parameter in its constructor, and holds a module that only torch knows how to reset."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.own = torch.nn.Parameter(torch.randn(d_model))
        self.foreign = torch.nn.Bilinear(d_model, d_model, d_model)

    def forward(self, x):
        return self.foreign(x, x * self.own)


def test_parameters_that_no_recipe_knows_depend_on_the_seed_alone(scratch_registry):
    register("feedforward", "drawn")(Drawn)
    one = model(3, feedforward="drawn").state_dict()
    torch.rand(7)
    again, other = (model(seed, feedforward="drawn").state_dict() for seed in (3, 4))
    deeper = model(3, feedforward="drawn", n_layers=3, position="learned").state_dict()
    for name in [f"decoder.layers.1.feedforward.{end}" for end in ("own", "foreign.weight", "foreign.bias")]:
        assert torch.equal(one[name], again[name])
        assert not torch.equal(one[name], other[name])
        assert torch.equal(one[name], deeper[name]) or name.endswith("own")


# --- tied matrices --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_h16_tied_matrices_are_one_tensor_and_count_once(dtype):
    tied, untied = model(dtype=dtype), model(dtype=dtype, tie_embeddings=False)
    assert tied.head.project.weight is tied.embedding.table()
    assert tied.head.project.weight.data_ptr() == tied.embedding.table().data_ptr()
    assert untied.head.project.weight.data_ptr() != untied.embedding.table().data_ptr()
    assert count_parameters(untied).total - count_parameters(tied).total == V * D


def test_h16_tied_matrices_stay_one_after_training_saving_and_loading(tmp_path):
    trained = model().train()
    update(trained)
    torch.save(trained.state_dict(), tmp_path / "state.pt")
    loaded = model(seed=9)
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True), strict=True)
    before = count_parameters(loaded)
    update(loaded)
    assert loaded.head.project.weight is loaded.embedding.table()
    assert [p is loaded.embedding.table() for p in loaded.parameters()].count(True) == 1
    assert count_parameters(loaded) == before
    assert not torch.equal(loaded.embedding.table(), trained.embedding.table())


def update(trained) -> None:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    trained(ids()).logits.square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_state_dict_round_trip_of_a_model(changes):
    one, other = model(1, **changes), model(2, **changes)
    other.load_state_dict(one.state_dict(), strict=True)
    assert torch.equal(one(ids()).logits, other(ids()).logits)


def test_the_weights_of_another_shape_are_refused():
    with pytest.raises(RuntimeError, match="size mismatch for decoder"):
        model(d_ff=32).load_state_dict(model().state_dict())
