"""Golden rows that concern generation: G53, G54, G59."""

from itertools import zip_longest

import pytest
import torch

from tests.generation.engines import Fake
from tests.tiny import model as tiny_model
from tfexp.generation.generate import generate, stream_one
from tfexp.generation.session import Session
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


def next_letter() -> Fake:
    """Predicts the letter after the one at the last position, the end after `e`; misleads everywhere else."""
    return Fake(lambda text: 0 if text[-1] == 5 else text[-1] + 1, Letters())


def greedy(model, prompt: str, limit: int) -> str:
    return generate(model, [prompt], "greedy", max_new_tokens=limit, cache="none")[0]


@pytest.mark.parametrize(
    ("limit", "text", "passes"), [(10, "bcde", 5), (2, "bc", 2)], ids=["G53_stops_at_the_end", "G53_stops_at_the_limit"]
)
def test_G53_greedy_loop_uses_the_last_position_only(limit, text, passes):
    model = next_letter()
    assert greedy(model, "a", limit) == text
    assert len(model.shown) == passes


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
    tiny = tiny_model(position="rope", vocab_size=10, max_seq_len=16)
    tiny.tokenizer = Letters()
    choice = check_choice("generation", {"name": "greedy", "max_new_tokens": 6}, "generation")
    with Session(tiny, choice) as session:
        alone = ["".join(stream_one(session, prompt)) for prompt in ("a", "cab")]
        first, second = stream_one(session, "a"), stream_one(session, "cab")
        turns = list(zip_longest(first, second, fillvalue=""))  # one more token of each in turn
    assert ["".join(pieces) for pieces in zip(*turns, strict=True)] == alone
    assert alone[0] != alone[1]
