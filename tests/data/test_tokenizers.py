import hashlib

import numpy as np
import pytest
import tokenizers

from tests.runs import python_process
from tfexp.data.tokenization import Tokenizer, TokenizerRecipe, special_text
from tfexp.errors import ConfigError, DataError
from tfexp.registry import check_choice, create, names

HARD = {
    "ascii": "def f(x):\n\treturn x  # two  spaces",
    "empty": "",
    "emoji": "🙂👩‍👩‍👧‍👦🇩🇪",
    "carriage_return": "a\rb\r\nc\n\nd\x0b\x0c\u2028\u2029\x85e",
    "combining_marks": "e\u0301 é a\u0308\u0323 \u0301",
    "nul": "a\x00b\x00",
    "special_tokens_as_text": "<eos><pad> <unk>\n< eos > <bos>",
    "wide": "你好，世界 ﷽ \U0010ffff\ue000",
    "spaces": " \u00a0\u2003\t ",
    "byte_order_mark": "\ufeffa",
    "names_of_bytes": "Ġ Ċ ĉ Ā",  # how byte-level vocabularies write space, newline, ...
}
ALL_TEXT = "".join(HARD.values())
TRAIN = "from tfexp.registry import create\nprint(create('tokenizer', {}, {{}}).train({!r}).to_str())"
SPECIALS = ["pad", "unk", "bos", "eos"]


def trained(name: str, *documents: str, **options) -> tuple[TokenizerRecipe, Tokenizer]:
    recipe = create("tokenizer", check_choice("tokenizer", {"name": name, **options}, "data.tokenizer"), {})
    return recipe, Tokenizer(recipe.train(documents or (ALL_TEXT,)))


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    by_id = sorted((i, token) for token, i in tokenizer.backend.get_vocab().items())
    assert [i for i, _ in by_id] == list(range(tokenizer.vocab_size))
    return [token for _, token in by_id]


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize("specials", [SPECIALS, []], ids=["specials", "none"])
@pytest.mark.parametrize("name", names("tokenizer"))
def test_the_fast_way_of_encoding_equals_the_librarys(name, specials, text):
    recipe, tokenizer = trained(name, specials=specials)
    (fast,) = recipe.encode(tokenizer, [text])
    assert fast.tolist() == tokenizer.backend.encode(text).ids


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize("name", names("tokenizer"))
def test_decoding_gives_the_text_back(name, text):
    recipe, tokenizer = trained(name)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(recipe.encode(tokenizer, [text])[0].tolist()) == text


@pytest.mark.parametrize("name", names("tokenizer"))
def test_text_never_produces_a_special_token(name):
    recipe, tokenizer = trained(name, *["<eos> <pad><bos>"] * 50, "a<eos>b")
    special = {tokenizer.special_id(s) for s in SPECIALS}
    assert special == {0, 1, 2, 3}
    for text in ("<eos>", "a <pad> b", "<eos><eos>"):
        ids = tokenizer.backend.encode(text).ids
        assert not special & {*ids, *recipe.encode(tokenizer, [text])[0].tolist()} - {tokenizer.special_id("unk")}
        assert len(ids) > 1


@pytest.mark.parametrize("name", names("tokenizer"))
def test_special_tokens_come_first_and_are_not_decoded(name):
    _, tokenizer = trained(name, specials=["eos", "pad"])
    assert vocabulary(tokenizer)[:2] == ["<eos>", "<pad>"]
    assert tokenizer.special_id("bos") is None
    assert tokenizer.decode([0, *tokenizer.encode("ab"), 1]) == "ab"


@pytest.mark.parametrize("name", names("tokenizer"))
def test_a_special_token_that_is_listed_twice_is_refused(name):
    with pytest.raises(DataError, match=r"^data\.tokenizer\.specials: 'eos' is listed twice$"):
        trained(name, specials=["eos", "pad", "eos"])


def test_characters_are_in_the_order_of_their_code_points():
    _, tokenizer = trained("char", "bca", "\x00é🙂b")
    assert vocabulary(tokenizer) == [*map(special_text, SPECIALS), "\x00", "a", "b", "c", "é", "🙂"]


def test_bytes_are_in_order_after_the_special_tokens():
    recipe, tokenizer = trained("byte")
    assert tokenizer.vocab_size == 260
    assert recipe.encode(tokenizer, ["\x00é"])[0].tolist() == [4, 4 + 0xC3, 4 + 0xA9]
    assert [tokenizer.decode([4 + byte]) for byte in range(128)] == [chr(byte) for byte in range(128)]


def test_bpe_starts_from_all_bytes_and_merges_the_most_frequent_pairs():
    _, tokenizer = trained("bpe", *["hug pug pun bun hugs"] * 5, vocab_size=264)
    listed = vocabulary(tokenizer)
    assert len(set(listed[4:260])) == 256
    # ug: 15 pairs; then un, Ġp and Ġb are left with hug: 10 each.
    assert listed[260] == "ug"
    assert tokenizer.backend.encode("mug").tokens == ["m", "ug"]  # nothing is dropped, no token is unknown
    assert tokenizer.decode(tokenizer.encode("mug é 🙂")) == "mug é 🙂"


def test_bpe_stops_where_there_is_nothing_to_merge():
    _, tokenizer = trained("bpe", "ab", vocab_size=1000)
    assert tokenizer.vocab_size == 4 + 256 + 1


def test_bpe_needs_room_for_every_byte():
    with pytest.raises(ConfigError, match=r"^data\.tokenizer\.vocab_size: must be >= 264, got 100$"):
        trained("bpe", vocab_size=100)


@pytest.mark.parametrize("name", names("tokenizer"))
def test_a_vocabulary_is_the_same_in_every_process(name):
    documents = tuple(f"{a}{b} {b}{a}" for a in "abcdé🙂" for b in "xyzuv")  # many pairs of equal frequency
    node = check_choice("tokenizer", name, "data.tokenizer")
    code = TRAIN.format(node, documents)
    printed = {hashlib.sha256(python_process(code, PYTHONHASHSEED=seed).encode()).hexdigest() for seed in ("1", "99")}
    assert printed == {hashlib.sha256(trained(name, *documents)[1].to_json().encode()).hexdigest()}


def test_an_unseen_character_is_unknown_never_dropped():
    recipe, tokenizer = trained("char", "hug pug")
    unknown = tokenizer.special_id("unk")
    ids = tokenizer.encode("mug é")
    assert [i == unknown for i in ids] == [True, False, False, False, True]
    assert recipe.encode(tokenizer, ["éé"])[0].tolist() == [unknown, unknown]


def test_without_unk_an_unseen_character_is_named():
    recipe, tokenizer = trained("char", "hug pug", specials=["eos"])
    message = (
        r"^data\.tokenizer: the character 'é' is not in the training part; add 'unk' to data\.tokenizer\.specials$"
    )
    with pytest.raises(DataError, match=message):
        recipe.encode(tokenizer, ["hug", "pugé"])


def test_without_unk_an_unseen_character_of_a_prompt_is_refused():
    _, tokenizer = trained("char", "hug pug", specials=["eos"])
    for prompt in ("pugé", "é"):
        with pytest.raises(DataError, match=r"^the tokenizer has no token for 'é', and no 'unk' either$"):
            tokenizer.encode(prompt)
    assert tokenizer.encode("") == []


def test_a_prompt_that_leaves_no_token_is_refused():
    tokenizer = Tokenizer(tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, [])))
    with pytest.raises(DataError, match=r"^the tokenizer knows none of the characters of 'é'$"):
        tokenizer.encode("é")


def test_encoding_is_int64_for_every_document():
    for name in names("tokenizer"):
        recipe, tokenizer = trained(name)
        encoded = recipe.encode(tokenizer, ["ab", "", "<eos>"])
        assert [(ids.dtype, ids.ndim) for ids in encoded] == [(np.dtype("int64"), 1)] * 3
        assert len(encoded[1]) == 0


def test_a_tokenizer_survives_its_file(tmp_path):
    _, tokenizer = trained("bpe")
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.from_file(tmp_path / "tokenizer.json")
    assert again.encode(ALL_TEXT) == tokenizer.encode(ALL_TEXT)
    assert again.fingerprint() == tokenizer.fingerprint()
    with pytest.raises(DataError, match=r"^there is no tokenizer file .*none\.json$"):
        Tokenizer.from_file(tmp_path / "none.json")


def test_a_recipe_must_say_how_it_trains():
    with pytest.raises(NotImplementedError):
        TokenizerRecipe().train([])
