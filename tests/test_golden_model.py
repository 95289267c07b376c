"""Golden values of whole models, tasks and batches, each under its number (see test_golden.py).

Encoders and models of two sides, G42 to G46, are in test_golden_sides.py.
"""

import math

import numpy as np
import pytest
import torch
from torch import nn

from tests.components.cases import Case
from tests.model.checks import future_gradients
from tests.tiny import close, ids, model, normal
from tfexp.batch import IGNORE, Batch
from tfexp.components.base import AttentionContext
from tfexp.data.blocks import EvalBlocks
from tfexp.errors import ConfigError
from tfexp.model.block import SUBLAYERS, Block
from tfexp.registry import check_choice, create

TEACHING = {"d_model": 8, "n_heads": 2, "d_ff": 16, "vocab_size": 10, "n_layers": 1, "norm_placement": "post"}
WITH_BIAS = {
    "attention": {"name": "softmax", "bias": True},
    "feedforward": {"name": "mlp", "activation": "relu", "bias": True},
}
LOGITS = [0.0, math.log(2), 0.0, 0.0]
SMOOTHED = {"G51-all": ("all", 0.9682768), "G51-others": ("others", 0.9856055)}
TEMPERATURES = {
    "G52-0.25": (0.25, [0.0526316, 0.8421053, 0.0526316, 0.0526316]),
    "G52-0.5": (0.5, [1 / 7, 4 / 7, 1 / 7, 1 / 7]),
    "G52-1": (1.0, [0.2, 0.4, 0.2, 0.2]),
    "G52-2": (2.0, [0.2265409, 0.3203772, 0.2265409, 0.2265409]),
}


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


class Fixed(nn.Module):
    """A model whose logits are given."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, **inputs):
        return self  # has .logits


def loss(made: nn.Module, labels: list[list[int]], task: dict | None = None, **fields) -> torch.Tensor:
    labels = torch.tensor(labels)
    batch = Batch(input_ids=fields.pop("input_ids", torch.zeros_like(labels)), labels=labels, **fields)
    summed = create("task", task or {"name": "next_token"}, {}).loss(made, batch)
    return summed.total / summed.count


# --- blocks and models -------------------------------------------------------------------------------


def test_G01_the_base_of_the_paper():
    made = model(d_model=512, n_heads=8, d_ff=2048, n_layers=1, vocab_size=10).spec
    assert (made.head_dim, made.n_kv_heads) == (64, 8)
    teaching = model(**TEACHING).spec
    assert (teaching.head_dim, teaching.d_ff) == (4, 16)


@pytest.mark.parametrize("placement", ["post", "pre"], ids=["G35-post", "G36-pre"])
def test_wiring_of_a_block(placement):
    attention, feedforward = Case("attention", "softmax").make(), Case("feedforward", "mlp").make()
    place = Case("norm_placement", placement).make()
    x, context = normal(2, 5, 8), AttentionContext()
    first, second = place.norms["attention"], place.norms["feedforward"]
    if placement == "post":
        u = first(x + attention(x, context))
        expected = second(u + feedforward(u))
    else:
        u = x + attention(first(x), context)
        expected = u + feedforward(second(u))
    close(Block(attention, feedforward, place, dropout=0.0)(x, context), expected)


def test_G35_post_norm_ends_each_token_with_mean_0_and_variance_1():
    hidden = model(norm_placement="post")(ids()).hidden
    close(hidden.mean(-1), torch.zeros(2, 4))
    close(hidden.var(-1, unbiased=False), torch.ones(2, 4), atol=1e-4)  # eps 1e-5 of variances from 0.1 on


def test_G36_pre_norm_with_silent_sublayers_is_the_identity_up_to_the_last_norm():
    made = model(norm_placement=({"name": "pre", "final_norm": False}))
    for block in made.decoder.layers:
        nn.init.zeros_(block.attention.output.weight)
        nn.init.zeros_(block.feedforward.outer.weight)
    assert torch.equal(made(ids()).hidden, made.embedding(ids()))


def test_G36_the_stack_of_pre_norm_ends_with_one_more_norm():
    made = model(norm_placement="pre")
    assert isinstance(made.decoder.ends.final_norm, type(made.decoder.layers[0].placement.norms["attention"]))
    assert isinstance(model(norm_placement="post").decoder.ends.final_norm, nn.Identity)


def test_G37_dropout_is_on_each_sublayers_output_before_the_sum():
    made = model(dropout={"residual": 0.5}, norm_placement={"name": "pre", "final_norm": False}, n_layers=1).train()
    sums, drops = [], []
    for name in SUBLAYERS:
        made.decoder.layers[0].placement.residuals[name].register_forward_hook(lambda m, args, out: sums.append(args))
    made.decoder.layers[0].dropout.register_forward_hook(lambda m, args, out: drops.append(out))
    made(ids())
    assert [torch.equal(update, dropped) for (_, update), dropped in zip(sums, drops, strict=True)] == [True, True]
    assert all(0 < (dropped == 0).double().mean() < 1 for dropped in drops)


def test_G39_parameters_with_biases():
    block = model(**TEACHING, **WITH_BIAS).decoder.layers[0]
    assert (size(block.attention), size(block.feedforward), size(block.placement)) == (288, 280, 32)
    assert size(block) == 600


@pytest.mark.parametrize(("length", "n_layers", "count"), [(3, 1, 600), (30, 1, 600), (3, 2, 1200)])
def test_G40_length_costs_no_parameters_and_depth_does(length, n_layers, count):
    made = model(**{**TEACHING, "n_layers": n_layers, "max_seq_len": length}, **WITH_BIAS, tie_embeddings=False)
    assert size(made.decoder) == count
    assert (size(made.embedding), size(made.head)) == (80, 80)


def test_G41_parameters_without_biases():
    block = model(**TEACHING).decoder.layers[0]
    assert (size(block.attention), size(block.feedforward)) == (256, 256)


def test_G23_no_gradient_comes_from_the_future():
    seen = future_gradients(model())
    assert (seen.triu(1) == 0).all()
    assert (seen.tril() > 0).sum() == 10


def test_G24_pads_change_nothing():
    made, tokens = model(position="learned"), ids(1, 4)
    padded, mask = torch.cat((tokens, tokens.new_zeros(1, 3)), 1), torch.tensor([[1, 1, 1, 1, 0, 0, 0]])
    expected = made(tokens).logits
    close(made(padded, mask).logits[:, :4], expected)
    with torch.no_grad():
        made.embedding.token.weight[0] += 5  # the pad's own vector
    close(made(padded, mask).hidden[:, :4] @ made.embedding.token.weight[1:].T, expected[..., 1:])


def test_G25_a_pad_is_left_out_of_attention_and_of_the_loss():
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 0]])
    labels = ids(seed=4).masked_fill(mask == 0, IGNORE).tolist()
    results = []
    for change in (0, 1):
        made = model(position="rope", tie_embeddings=False)
        tokens = ids() + change * (1 - mask)
        value = loss(made, labels, input_ids=tokens, attention_mask=mask)
        value.backward()
        results.append([value, *(p.grad for p in made.parameters())])
    for one, other in zip(*results, strict=True):
        close(one, other)


def test_G48_logits_of_the_language_model():
    made = model(**{**TEACHING, "head": {"name": "lm", "bias": True}})
    with torch.no_grad():
        made.head.project.bias.copy_(torch.arange(10))
    out = made(ids(2, 4) % 10)
    assert out.logits.shape == (2, 4, 10)
    close(out.logits, out.hidden @ made.embedding.token.weight.T + torch.arange(10))


# --- loss and batches ----------------------------------------------------------------------------------


def test_G47_labels_are_the_tokens_one_ahead():
    begin, words, end = 8, [1, 2, 3], 9
    batch = EvalBlocks(np.array([begin, *words, end]), seq_len=4, batch_size=1, n_bytes=0)[0]
    assert batch.input_ids.tolist() == [[begin, *words]]
    assert batch.labels.tolist() == [[*words, end]]


@pytest.mark.parametrize(("label", "expected"), [(1, 0.9162907), (0, 1.6094379), (3, 1.6094379)])
def test_G49_cross_entropy(label, expected):
    close(loss(Fixed(torch.tensor([[LOGITS]])), [[label]]), expected, atol=1e-6)  # float32


def test_G50_the_loss_is_the_mean_over_scored_tokens():
    three = Fixed(torch.tensor([[LOGITS, LOGITS, [9.0, 0, 0, 0]]]))
    expected = (0.9162907 + 1.6094379) / 2
    close(loss(three, [[1, 0, IGNORE]]), expected, atol=1e-6)
    padded = Fixed(torch.cat((three.logits.detach(), torch.randn(1, 5, 4)), dim=1))
    close(loss(padded, [[1, 0] + [IGNORE] * 6]), expected, atol=1e-6)


def test_G50_the_loss_takes_raw_logits():
    raw, shifted = (Fixed(torch.tensor([[LOGITS]]) + shift) for shift in (0, 100))
    close(loss(raw, [[1]]), loss(shifted, [[1]]).item(), atol=1e-5)  # 100 keeps 5 digits in float32
    with pytest.raises(AssertionError, match="not close"):
        close(loss(Fixed(torch.tensor([[LOGITS]]).softmax(-1)), [[1]]), 0.9162907, atol=1e-6)


@pytest.mark.parametrize(("smoothing", "expected"), SMOOTHED.values(), ids=SMOOTHED)
def test_label_smoothing(smoothing, expected):
    task = {"name": "translation", "label_smoothing": 0.1, "smoothing": smoothing}
    exact = Fixed(torch.tensor([[LOGITS, [9.0, 0, 0, 0]]], dtype=torch.float64))
    close(loss(exact, [[1, IGNORE]], task), expected, atol=1e-7)
    close(loss(exact, [[1, IGNORE]], task | {"label_smoothing": 0.0}), 0.9162907, atol=1e-7)


# --- choosing the next token ---------------------------------------------------------------------------


def probabilities(temperature: float) -> torch.Tensor:
    made = create("generation", {"name": "sample", "temperature": temperature}, {})
    return made.law.probabilities(torch.tensor([LOGITS]))[0]


@pytest.mark.parametrize(("temperature", "expected"), TEMPERATURES.values(), ids=TEMPERATURES)
def test_temperature(temperature, expected):
    close(probabilities(temperature), expected, atol=5e-8)


def test_G52_entropy_rises_with_temperature():
    drawn = [probabilities(t) for t in (0.25, 0.5, 1.0, 2.0, 10.0)]
    entropy = torch.stack([-(p * p.log()).sum() for p in drawn])
    assert (entropy.diff() > 0).all()


@pytest.mark.parametrize("temperature", [0, -1])
def test_G52_a_temperature_of_zero_or_less_is_refused(temperature):
    with pytest.raises(ConfigError, match=f"generation.temperature: must be > 0, got {temperature}"):
        check_choice("generation", {"name": "sample", "temperature": temperature}, "generation")
