from types import SimpleNamespace

import pytest
import torch
from torch import nn

import tfexp
from tests import runs
from tests.tiny import model as tiny_model
from tfexp.data.tokenization import Tokenizer
from tfexp.errors import ConfigError, DataError
from tfexp.generation.generate import generate, generate_one
from tfexp.registry import check_choice, create, names


@pytest.fixture(scope="module")
def model(trained):
    return tfexp.load(trained.folder)


class Scripted(nn.Module):
    """A model that says given tokens one after another, and notes what it was shown."""

    def __init__(self, tokens: list[int], tokenizer: Tokenizer, max_seq_len: int = 8) -> None:
        super().__init__()
        self.tokens, self.tokenizer, self.shown = iter(tokens), tokenizer, []
        self.spec = SimpleNamespace(max_seq_len=max_seq_len)
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids):
        self.shown.append(input_ids[0].tolist())
        logits = torch.zeros(1, input_ids.shape[1], self.tokenizer.vocab_size)
        logits[0, -1, next(self.tokens)] = 100.0
        return SimpleNamespace(logits=logits)


def tokenizer(name: str = "byte", **options) -> Tokenizer:
    recipe = create("tokenizer", check_choice("tokenizer", {"name": name, **options}, "data.tokenizer"), {})
    return Tokenizer(recipe.train(["ab cd"]))


def node(strategy: str = "greedy", **options) -> dict:
    return check_choice("generation", {"name": strategy, **options}, "generation")


def test_greedy_is_the_loop_that_everybody_would_write(model):
    (text,) = generate(model, ["ab c"], strategy="greedy", max_new_tokens=20)
    ids = model.tokenizer.encode("ab c")
    for _ in range(20):
        ids.append(int(model(torch.tensor([ids[-8:]])).logits[0, -1].argmax()))
    assert model.tokenizer.encode(text) == ids[4:]
    assert text == generate(model, ["ab c"], strategy="greedy", max_new_tokens=20, seed=5)[0]


@pytest.mark.parametrize("position", names("position"))
def test_generation_slides_beyond_the_longest_input(position):
    # The context is the last max_seq_len tokens, with positions counted anew.
    tiny = tiny_model(dtype=torch.float32, position=position, vocab_size=260, max_seq_len=4)
    tiny.tokenizer = tokenizer()
    text = generate_one(tiny, "0123456789", node(max_new_tokens=6))
    assert text == generate_one(tiny, "6789", node(max_new_tokens=6))


def test_the_context_slides_by_one_token_a_step():
    scripted = Scripted([4 + ord("x")] * 3, tokenizer(), max_seq_len=3)
    assert generate_one(scripted, "ab", node(max_new_tokens=3)) == "xxx"
    assert [scripted.tokenizer.decode(ids) for ids in scripted.shown] == ["ab", "abx", "bxx"]


def test_a_prompt_draws_the_same_whatever_stands_beside_it(model):
    options = {"temperature": 2.0, "max_new_tokens": 12}
    texts = generate(model, ["ab", "ab", "cd"], **options)
    assert generate(model, ["ab"], **options) == texts[:1]
    assert generate(model, ["efg", "ab", "hi hi", "ab"], **options)[1] == texts[1]
    assert texts[0] != texts[1]  # the second prompt has a stream of its own
    assert generate(model, ["ab", "ab", "cd"], seed=1, **options) != texts


def test_generation_leaves_global_randomness_alone(model):
    before = torch.get_rng_state()
    generate(model, ["ab"], max_new_tokens=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_empty_prompt_starts_where_a_document_would(model):
    shown = Scripted([4 + ord("x")], tokenizer())
    assert generate_one(shown, "", node(max_new_tokens=1)) == "x"
    assert shown.shown == [[shown.tokenizer.special_id("eos")]]
    assert len(generate(model, [""], max_new_tokens=5)[0]) <= 5


def test_an_empty_prompt_needs_an_end_token():
    message = r"^generate: an empty prompt needs a tokenizer with an eos token; give some text to start from$"
    with pytest.raises(DataError, match=message):
        generate_one(Scripted([0], tokenizer(specials=["pad"])), "", node())


def test_generation_ends_with_the_end_token():
    scripted = Scripted([4 + ord("x"), 3, 4 + ord("y")], tokenizer())
    assert scripted.tokenizer.special_id("eos") == 3
    assert generate_one(scripted, "ab", node(max_new_tokens=9)) == "x"
    assert len(scripted.shown) == 2


@pytest.mark.parametrize("text", ["plain", "é☃🙂", "a🙂", "🙂é", "e\u0301"])
@pytest.mark.parametrize("cut", [0, 1])
def test_the_pieces_of_a_stream_join_to_the_whole_text(text, cut):
    data = text.encode()[: len(text.encode()) - cut]  # cut: the end falls into a character
    pieces: list[str] = []
    scripted = Scripted([4 + byte for byte in data], tokenizer())
    whole = generate_one(scripted, "ab", node(max_new_tokens=len(data)), on_text=pieces.append)
    assert "".join(pieces) == whole == data.decode(errors="replace")
    assert all("\ufffd" not in piece for piece in pieces[:-1])


def test_bytes_that_are_no_text_are_shown_once():
    pieces: list[str] = []
    scripted = Scripted([4 + 0xC3, 4 + ord("a"), 4 + 0xFF, 4 + ord("b")], tokenizer())
    whole = generate_one(scripted, "ab", node(max_new_tokens=4), on_text=pieces.append)
    assert "".join(pieces) == whole == "\ufffda\ufffdb"


def test_unknown_strategies_and_options_are_refused(model):
    with pytest.raises(ConfigError, match=r"^generation: unknown generation 'greedi'; did you mean 'greedy'\?$"):
        generate(model, ["ab"], strategy="greedi")
    with pytest.raises(ConfigError, match=r"^generation\.temperatur: unknown key; did you mean 'temperature'\?$"):
        generate(model, ["ab"], temperatur=0.5)
    with pytest.raises(ConfigError, match=r"^generation\.temperature: unknown key; keys here: max_new_tokens, seed"):
        generate(model, ["ab"], strategy="greedy", temperature=0.5)


def test_a_model_without_a_tokenizer_is_refused():
    with pytest.raises(ConfigError, match=r"^generate: this model has no tokenizer; get it with tfexp\.load\(run\)$"):
        generate_one(tiny_model(), "ab", node())


def test_a_character_that_the_model_cannot_know_is_refused(tmp_path):
    record = tfexp.train(runs.config(tmp_path, "data.tokenizer.specials=[eos]", "trainer.max_steps=1"))
    with pytest.raises(DataError, match=r"^the tokenizer has no token for '☃', and no 'unk' either$"):
        generate(tfexp.load(record), ["ab ☃"])
