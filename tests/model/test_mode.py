"""Evaluation mode on loan: afterwards every part is as it was."""

import pytest
import torch

import tfexp
from tests.tiny import model
from tfexp.generation.generate import generate, stream
from tfexp.model.mode import evaluating, evaluation_mode


def modes(net) -> dict[str, bool]:
    return {name: module.training for name, module in net.named_modules()}


def half_frozen(net):
    """In training, but for one layer."""
    net.train()
    net.decoder.layers[0].eval()
    return net


@pytest.mark.parametrize("use", [evaluation_mode, lambda net: evaluating(net, "bf16-mixed")], ids=["mode", "all"])
def test_the_mode_of_every_part_comes_back(use):
    net = half_frozen(model())
    before = modes(net)
    with use(net):
        assert not any(modes(net).values())
    assert modes(net) == before
    with pytest.raises(ZeroDivisionError), use(net):
        raise ZeroDivisionError
    assert modes(net) == before
    assert not torch.is_autocast_enabled("cpu")


def test_generating_with_a_model_in_training_has_no_dropout(trained):
    net = tfexp.load(trained.folder)
    expected = generate(net, ["ab"], strategy="greedy", max_new_tokens=12)
    for module in net.modules():
        if hasattr(module, "rate"):
            module.rate = 0.5
    before = modes(half_frozen(net))
    assert generate(net, ["ab"], strategy="greedy", max_new_tokens=12) == expected
    assert "".join(stream(net, "ab", strategy="greedy", max_new_tokens=12)) == expected[0]
    pieces = stream(net, "ab", strategy="greedy", max_new_tokens=12)
    next(pieces)
    pieces.close()  # left in the middle
    assert modes(net) == before
    with pytest.raises(tfexp.errors.DataError):
        generate(net, ["ab" * 20], strategy="greedy")
    assert modes(net) == before
