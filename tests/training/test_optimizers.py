import copy

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from tests.tiny import ids, model
from tfexp.registry import check_choice, create, names
from tfexp.training.optim.muon import Together
from tfexp.training.parameter_groups import decay_groups

NAMES = names("optim")


def optimizer(name: str, tiny: nn.Module, **keys) -> torch.optim.Optimizer:
    return create("optim", check_choice("optim", {"name": name, **keys}, "optim"), {"model": tiny})


def tiny_model(**changes):
    return model(dtype=torch.float32, position="learned", attention={"name": "softmax", "bias": True}, **changes)


def step(tiny: nn.Module, chosen: torch.optim.Optimizer, seed: int = 1) -> None:
    tokens = ids(2, 6, seed=seed)
    loss = nn.functional.cross_entropy(tiny(tokens[:, :-1]).logits.flatten(0, 1), tokens[:, 1:].flatten())
    chosen.zero_grad()
    loss.backward()
    chosen.step()


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", NAMES)
def test_each_parameter_is_in_exactly_one_group(name, tie):
    tiny = tiny_model(tie_embeddings=tie)
    held = [id(p) for group in optimizer(name, tiny).param_groups for p in group["params"]]
    assert len(held) == len(set(held))
    assert set(held) == {id(p) for p in tiny.parameters()}


@pytest.mark.parametrize("name", NAMES)
def test_matrices_are_decayed_and_vectors_are_not(name):
    chosen = optimizer(name, tiny_model(), weight_decay=0.3)
    for group in chosen.param_groups:
        assert {p.dim() >= 2 for p in group["params"]} == {group["weight_decay"] == 0.3}
        assert group["weight_decay"] in (0.0, 0.3)


@pytest.mark.parametrize("name", NAMES)
def test_decay_shrinks_matrices_alone(name):
    tiny = tiny_model()
    before = {n: p.detach().clone() for n, p in tiny.named_parameters()}
    chosen = optimizer(name, tiny, weight_decay=0.5)
    for parameter in tiny.parameters():
        parameter.grad = torch.zeros_like(parameter)
    chosen.step()
    for n, p in tiny.named_parameters():
        if p.dim() >= 2:
            assert p.norm() < before[n].norm(), n
        else:
            assert torch.equal(p, before[n]), n


def test_what_is_not_trained_is_in_no_group():
    layer = nn.Linear(2, 3)
    layer.bias.requires_grad_(False)
    (group,) = decay_groups(list(layer.named_parameters()), 0.1)
    assert group["params"] == [layer.weight]
    layer.weight.requires_grad_(False)
    assert decay_groups(list(layer.named_parameters()), 0.1) == []


def test_muon_has_the_matrices_inside_blocks_and_adamw_the_rest():
    tiny = tiny_model()
    muon, adamw = optimizer("muon", tiny).optimizers
    inside = {id(m.weight) for m in tiny.decoder.layers.modules() if isinstance(m, nn.Linear)}
    assert {id(p) for group in muon.param_groups for p in group["params"]} == inside
    assert id(tiny.embedding.table()) in {id(p) for group in adamw.param_groups for p in group["params"]}


def test_muon_without_blocks_is_adamw():
    assert type(optimizer("muon", nn.Sequential(nn.Embedding(3, 2), nn.LayerNorm(2)))) is torch.optim.AdamW


def test_a_schedule_scales_both_rates_of_muon():
    chosen = optimizer("muon", tiny_model(), lr=0.02, adamw_lr=0.004)
    scheduler = LambdaLR(chosen, lambda step: 0.5**step)
    rates = []
    for _ in range(3):
        rates.append([group["lr"] for inner in chosen.optimizers for group in inner.param_groups])
        chosen.step()
        scheduler.step()
    assert rates == [[0.02, 0.004, 0.004], [0.01, 0.002, 0.002], [0.005, 0.001, 0.001]]


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_state_goes_on_to_the_same_bits(name, tmp_path):
    straight = tiny_model()
    chosen = optimizer(name, straight)
    for seed in range(3):
        step(straight, chosen, seed)
    torch.save({"model": straight.state_dict(), "optimizer": chosen.state_dict()}, tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed = tiny_model(seed=9)
    resumed.load_state_dict(state["model"])
    again = optimizer(name, resumed)
    again.load_state_dict(state["optimizer"])
    scheduler = LambdaLR(again, lambda step: 1.0)  # a schedule attached after loading must reach the loaded groups
    for seed in range(3, 6):
        step(straight, chosen, seed)
        step(resumed, again, seed)
        scheduler.step()
    for one, other in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_several_optimizers_as_one_have_one_closure():
    parameters = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    together = Together(*(torch.optim.SGD([p], lr=0.5) for p in parameters))

    def closure():
        loss = sum((p**2).sum() for p in parameters)
        loss.backward()
        return loss

    assert together.step(closure) == 4.0
    assert all((p == 0.0).all() for p in parameters)  # 1 - 0.5 * 2
    assert len(together.state_dict()["optimizers"]) == 2
    with pytest.raises(ValueError, match="zip"):
        together.load_state_dict({"optimizers": copy.deepcopy(together.state_dict()["optimizers"][:1])})
