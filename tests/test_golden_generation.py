"""Golden rows that concern generation without a cache: G53, G54, G59."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.tiny import model as tiny_model
from tfexp.generation.generate import generate_one
from tfexp.registry import check_choice, names


class Letters:
    """Ids 1, 2, ... are a, b, ...; 0 is the end."""

    vocab_size = 10

    def special_id(self, name):
        return 0 if name == "eos" else None

    def encode(self, text):
        return [ord(letter) - 96 for letter in text]

    def decode(self, ids):
        return "".join(chr(96 + i) for i in ids)


class NextLetter(nn.Module):
    """Predicts the letter after the one at the last position, the end after `e`; misleads everywhere else."""

    def __init__(self):
        super().__init__()
        self.weight, self.tokenizer = nn.Parameter(torch.zeros(1)), Letters()
        self.spec, self.passes = SimpleNamespace(max_seq_len=8), 0

    def forward(self, input_ids):
        self.passes += 1
        logits = torch.zeros(1, input_ids.shape[1], 10)
        logits[0, :-1, 9] = 100.0
        last = int(input_ids[0, -1])
        logits[0, -1, 0 if last == 5 else last + 1] = 100.0
        return SimpleNamespace(logits=logits)


def greedy(limit):
    return check_choice("generation", {"name": "greedy", "max_new_tokens": limit}, "generation")


@pytest.mark.parametrize(
    ("limit", "text", "passes"), [(10, "bcde", 5), (2, "bc", 2)], ids=["G53_stops_at_the_end", "G53_stops_at_the_limit"]
)
def test_G53_greedy_loop_uses_the_last_position_only(limit, text, passes):
    model = NextLetter()
    assert generate_one(model, "a", greedy(limit)) == text
    assert model.passes == passes


@pytest.mark.parametrize("position", names("position"))
def test_G54_one_pass_equals_stepwise_passes(position):
    model = tiny_model(position=position).double().eval()
    ids = torch.randint(0, model.spec.vocab_size, (2, 5))
    whole = model(ids).logits
    steps = torch.stack([model(ids[:, : t + 1]).logits[:, -1] for t in range(5)], dim=1)
    torch.testing.assert_close(whole, steps, rtol=0, atol=1e-12)  # float64, sums of another length


def test_G54_fails_where_the_future_is_seen():
    model = tiny_model(position="rope").double().eval()
    ids = torch.randint(0, model.spec.vocab_size, (1, 5))
    other = ids.clone()
    other[0, -1] = (other[0, -1] + 1) % model.spec.vocab_size
    # The last position does depend on its token: the comparison above can fail.
    assert not torch.allclose(model(ids).logits[:, -1], model(other).logits[:, -1])


def test_G59_prompts_served_in_turns_equal_prompts_served_alone():
    model = NextLetter()
    alone = [generate_one(model, prompt, greedy(3), index) for index, prompt in enumerate(["a", "c"])]
    turns: list[list[str]] = [[], []]
    for length in range(1, 4):  # one more token of each in turn
        for index, prompt in enumerate(["a", "c"]):
            turns[index].append(generate_one(model, prompt, greedy(length), index))
    assert [pieces[-1] for pieces in turns] == alone == ["bcd", "de"]
