import pytest
import torch

import tfexp
from tests import runs
from tests.generation.engines import Fake
from tests.tiny import model as tiny_model
from tfexp.data.tokenization import Tokenizer
from tfexp.errors import ConfigError, DataError
from tfexp.generation.generate import generate, stream
from tfexp.registry import check_choice, create, names


@pytest.fixture(scope="module")
def model(trained):
    return tfexp.load(trained.folder)


def scripted(tokens: list[int], tokenizer: Tokenizer, max_seq_len: int = 8) -> Fake:
    """A model that says given tokens one after another."""
    script = iter(tokens)
    return Fake(lambda text: next(script), tokenizer, max_seq_len)


def greedy(model, prompt: str, **keys) -> str:
    return generate(model, [prompt], "greedy", **{"cache": "none", **keys})[0]


def tokenizer(name: str = "byte", **options) -> Tokenizer:
    recipe = create("tokenizer", check_choice("tokenizer", {"name": name, **options}, "data.tokenizer"), {})
    return Tokenizer(recipe.train(["ab cd"]))


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
    text = greedy(tiny, "0123456789", max_new_tokens=6, truncate_prompt=True)
    assert text == greedy(tiny, "6789", max_new_tokens=6)


def test_the_context_slides_by_one_token_a_step():
    fake = scripted([4 + ord("x")] * 3, tokenizer(), max_seq_len=3)
    assert greedy(fake, "ab", max_new_tokens=3) == "xxx"
    assert [fake.tokenizer.decode(ids) for ids in fake.shown] == ["ab", "abx", "bxx"]


def test_a_context_that_slides_further_slides_less_often():
    fake = scripted([4 + ord("x")] * 6, tokenizer(), max_seq_len=4)
    assert greedy(fake, "abcd", max_new_tokens=6, slide=3) == "xxxxxx"
    assert [fake.tokenizer.decode(ids) for ids in fake.shown] == ["abcd", "dx", "dxx", "dxxx", "xx", "xxx"]


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
    shown = scripted([4 + ord("x")], tokenizer())
    assert greedy(shown, "", max_new_tokens=1) == "x"
    assert shown.shown == [[shown.tokenizer.special_id("eos")]]
    assert len(generate(model, [""], max_new_tokens=5)[0]) <= 5


def test_an_empty_prompt_needs_an_end_token():
    message = r"^generate: an empty prompt needs a tokenizer with an eos token; give some text to start from$"
    with pytest.raises(DataError, match=message):
        greedy(scripted([0], tokenizer(specials=["pad"])), "")


def test_generation_ends_with_the_end_token():
    fake = scripted([4 + ord("x"), 3, 4 + ord("y")], tokenizer())
    assert fake.tokenizer.special_id("eos") == 3
    assert greedy(fake, "ab", max_new_tokens=9) == "x"
    assert len(fake.shown) == 2


@pytest.mark.parametrize("text", ["plain", "é☃🙂", "a🙂", "🙂é", "e\u0301"])
@pytest.mark.parametrize("cut", [0, 1])
def test_the_pieces_of_a_stream_join_to_the_whole_text(text, cut):
    data = text.encode()[: len(text.encode()) - cut]  # cut: the end falls into a character
    fake = scripted([4 + byte for byte in data], tokenizer())
    pieces = list(stream(fake, "ab", "greedy", max_new_tokens=len(data), cache="none"))
    assert "".join(pieces) == data.decode(errors="replace")
    assert all("\ufffd" not in piece for piece in pieces[:-1])


def test_bytes_that_are_no_text_are_shown_once():
    fake = scripted([4 + 0xC3, 4 + ord("a"), 4 + 0xFF, 4 + ord("b")], tokenizer())
    assert "".join(stream(fake, "ab", "greedy", max_new_tokens=4, cache="none")) == "\ufffda\ufffdb"


def test_unknown_strategies_and_options_are_refused(model):
    with pytest.raises(ConfigError, match=r"^generation: unknown generation 'greedi'; did you mean 'greedy'\?$"):
        generate(model, ["ab"], strategy="greedi")
    with pytest.raises(ConfigError, match=r"^generation\.temperatur: unknown key; did you mean 'temperature'\?$"):
        generate(model, ["ab"], temperatur=0.5)
    with pytest.raises(
        ConfigError, match=r"^generation\.temperature: unknown key; keys here: banned, batch_size, cache"
    ):
        generate(model, ["ab"], strategy="greedy", temperature=0.5)


def test_a_model_without_a_tokenizer_is_refused():
    with pytest.raises(ConfigError, match=r"^generate: this model has no tokenizer; get it with tfexp\.load\(run\)$"):
        generate(tiny_model(), ["ab"])


def test_a_character_that_the_model_cannot_know_is_refused(tmp_path):
    record = tfexp.train(runs.config(tmp_path, "data.tokenizer.specials=[eos]", "trainer.max_steps=1"))
    with pytest.raises(DataError, match=r"^the tokenizer has no token for '☃', and no 'unk' either$"):
        generate(tfexp.load(record), ["ab ☃"])
