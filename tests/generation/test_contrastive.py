"""Contrastive search against its formula, token by token."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from tests import tiny
from tests.generation.engines import answers, call
from tfexp.errors import ConfigError
from tfexp.generation.engine import RecomputingEngine
from tfexp.registry import check_choice, create

PROMPTS = [[3, 4, 5], [6], [7, 8]]


def strategy(name: str = "contrastive", **keys):
    return create("generation", check_choice("generation", {"name": name, **keys}, "generation"), {})


def texts(chosen, net, prompts, n=6, end=None):
    with torch.no_grad():
        found, _ = answers(chosen, call(RecomputingEngine(net, None, 16, 1), prompts, n, end))
    return [h.ids for (h,) in found]


def by_hand(net, prompt, k, alpha, n):
    """The formula, one candidate at a time."""
    ids = list(prompt)
    for _ in range(n):
        output = net(torch.tensor([ids]))
        chances, worth = output.logits[0, -1].softmax(-1), {}
        for v in chances.topk(k).indices.tolist():
            state = net(torch.tensor([[*ids, v]])).hidden[0, -1]
            alike = max(float(cosine_similarity(state, h, dim=0)) for h in output.hidden[0])
            worth[v] = (1 - alpha) * float(chances[v]) - alpha * alike
        ids.append(max(worth, key=worth.__getitem__))
    return ids[len(prompt) :]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("k", "alpha"), [(4, 0.6), (2, 0.9), (1, 0.5)])
def test_the_search_is_the_formula(seed, k, alpha):
    net = tiny.model(seed, position="rope")
    with torch.no_grad():
        expected = [by_hand(net, prompt, k, alpha, 6) for prompt in PROMPTS]
    assert texts(strategy(k=k, alpha=alpha), net, PROMPTS) == expected


def test_without_a_penalty_it_is_greedy():
    net = tiny.model(2, position="rope")
    assert texts(strategy(alpha=0.0), net, PROMPTS, end=2) == texts(strategy("greedy"), net, PROMPTS, end=2)
    assert texts(strategy(alpha=0.9), net, PROMPTS) != texts(strategy("greedy"), net, PROMPTS)


def test_more_candidates_than_tokens_are_refused():
    with pytest.raises(ConfigError, match=r"^generation\.k: 9 is more than the vocabulary's 8 tokens$"):
        strategy(k=9).check(8)
