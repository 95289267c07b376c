from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

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
SPECIALS = ["pad", "unk", "bos", "eos"]
TRAINED = [name for name in names("tokenizer") if name != "file"]
LOSSLESS = ["bpe", "byte", "char", "unigram"]
NO_UNKNOWN = ["bpe", "byte", "unigram"]
HUGS = ["hug pug pun bun hugs"] * 5
SMALL = {"wordpiece": {"vocab_size": 32}, "bpe": {"vocab_size": 264}, "unigram": {"vocab_size": 270}}
# Of `mug` and `mug é`. Nothing is dropped; where a character or a word is unknown, something stands for it.
OF_MUG = {
    "bpe": (["m", "ug"], ["m", "ug", "Ġ", "Ã", "©"]),
    "byte": (["m", "u", "g"], ["m", "u", "g", "Ġ", "Ã", "©"]),
    "char": (["<unk>", "u", "g"], ["<unk>", "u", "g", " ", "<unk>"]),
    "unigram": (["m", "ug"], ["m", "ug", "Ġ", "Ã", "©"]),
    "word": (["<unk>"], ["<unk>", "<unk>"]),
    "wordpiece": (["<unk>", "##ug"], ["<unk>", "##ug", "<unk>"]),
}
TIES = [f"{a}{b}{c} {c}{b}{a}" for a in "abcdé🙂" for b in "xyzuv" for c in "pq"]  # many pairs of equal frequency
# Prints what each tokenizer makes of the same text, and what the library's own trainer makes of it.
IN_A_PROCESS = """
import hashlib, tokenizers
from tfexp.data.tokenization import Tokenizer
from tfexp.registry import create
def show(name, *values): print(name, hashlib.sha256(repr(values).encode()).hexdigest())
for name in {names!r}:
    recipe = create("tokenizer", {{"name": name}}, {{}})
    tokenizer = Tokenizer(recipe.train({texts!r}))
    show(name, tokenizer.to_json(), [ids.tolist() for ids in recipe.encode(tokenizer, {texts!r})])
library = tokenizers.Tokenizer(tokenizers.models.WordPiece())
library.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
library.train_from_iterator({texts!r}, tokenizers.trainers.WordPieceTrainer(vocab_size=60, show_progress=False))
show("library", library.to_str())
"""


def trained(name: str, *documents: str, **options) -> tuple[TokenizerRecipe, Tokenizer]:
    recipe = create("tokenizer", check_choice("tokenizer", {"name": name, **options}, "data.tokenizer"), {})
    return recipe, Tokenizer(recipe.train(documents or tuple(HARD.values())))


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.backend.id_to_token(i) for i in tokenizer.encode(text)]


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    by_id = sorted((i, token) for token, i in tokenizer.backend.get_vocab().items())
    assert [i for i, _ in by_id] == list(range(tokenizer.vocab_size))
    return [token for _, token in by_id]


def test_every_tokenizer_is_in_the_tables():
    assert {*OF_MUG, "file"} == set(names("tokenizer"))


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize("specials", [SPECIALS, []], ids=["specials", "none"])
@pytest.mark.parametrize("name", TRAINED)
def test_the_fast_way_of_encoding_equals_the_librarys(name, specials, text):
    recipe, tokenizer = trained(name, specials=specials)
    (fast,) = recipe.encode(tokenizer, [text])
    assert fast.tolist() == tokenizer.backend.encode(text).ids


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize("name", LOSSLESS)
def test_decoding_gives_the_text_back(name, text):
    recipe, tokenizer = trained(name)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(recipe.encode(tokenizer, [text])[0].tolist()) == text


@pytest.mark.parametrize("name", LOSSLESS)
@given(text=st.text())
def test_decoding_gives_any_text_back(name, text):
    if name == "char":
        recipe, tokenizer = trained(name, text)
    else:
        recipe, tokenizer = on_hard_text(name)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert recipe.encode(tokenizer, [text])[0].tolist() == tokenizer.encode(text)


def test_words_alone_do_not_give_the_text_back():
    _, tokenizer = trained("word")
    assert tokenizer.decode(tokenizer.encode(HARD["ascii"])) != HARD["ascii"]


@cache
def on_hard_text(name: str) -> tuple[TokenizerRecipe, Tokenizer]:
    return trained(name)


@pytest.mark.parametrize("name", TRAINED)
def test_text_never_produces_a_special_token(name):
    recipe, tokenizer = trained(name, *["<eos> <pad><bos>"] * 50, "a<eos>b")
    special = {tokenizer.special_id(s) for s in SPECIALS}
    assert special == {0, 1, 2, 3}
    allowed = set() if name in NO_UNKNOWN else {tokenizer.special_id("unk")}
    for text in ("<eos>", "a <pad> b", "<eos><eos>", "<eos> <eos>\n<eos>", "\x1c<eos>\x1f<pad> ", "<bos>"):
        ids = tokenizer.backend.encode(text).ids
        assert ids
        assert special & {*ids, *recipe.encode(tokenizer, [text])[0].tolist()} <= allowed


def test_without_care_text_does_produce_a_special_token():
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<eos>": 0, "a": 1}, unk_token="a"))
    library.add_special_tokens(["<eos>"])
    assert Tokenizer(library).encode("<eos>") == [0]


@pytest.mark.parametrize("name", TRAINED)
def test_special_tokens_come_first_and_are_not_decoded(name):
    _, tokenizer = trained(name, "ab", specials=["eos", "pad"])
    assert vocabulary(tokenizer)[:2] == ["<eos>", "<pad>"]
    assert tokenizer.special_id("bos") is None
    assert tokenizer.decode([0, *tokenizer.encode("ab"), 1]) == "ab"


@pytest.mark.parametrize("name", TRAINED)
def test_null_special_tokens_are_the_usual_four(name):
    default = trained(name)[1]
    assert (
        default.to_json() == trained(name, specials=None)[1].to_json() == trained(name, specials=SPECIALS)[1].to_json()
    )
    six = trained(name, specials=[*SPECIALS, "mask", "sep"])[1]
    assert [six.special_id(s) for s in (*SPECIALS, "mask", "sep")] == [0, 1, 2, 3, 4, 5]
    assert [default.special_id(s) for s in ("mask", "sep")] == [None, None]


@pytest.mark.parametrize("name", TRAINED)
def test_a_special_token_that_is_listed_twice_is_refused(name):
    with pytest.raises(DataError, match=r"^data\.tokenizer\.specials: 'eos' is listed twice$"):
        trained(name, specials=["eos", "pad", "eos"])


def test_a_word_of_the_text_is_no_special_token_that_was_not_asked_for():
    _, tokenizer = trained("word", "a <mask> <unk>", specials=["eos"])
    assert vocabulary(tokenizer) == ["<eos>", "<mask>", "<unk>", "a"]
    assert [tokenizer.special_id(s) for s in ("eos", "mask", "unk")] == [0, None, None]


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


def test_bpe_stops_where_there_is_nothing_to_merge():
    _, tokenizer = trained("bpe", "ab", vocab_size=1000)
    assert tokenizer.vocab_size == 4 + 256 + 1


def test_bpe_needs_room_for_every_byte():
    with pytest.raises(ConfigError, match=r"^data\.tokenizer\.vocab_size: must be >= 264, got 100$"):
        trained("bpe", vocab_size=100)


def test_a_vocabulary_is_the_same_in_every_process():
    code = IN_A_PROCESS.format(names=TRAINED, texts=TIES)
    settings = (("1", "1"), ("99", "2"))
    one, other = (python_process(code, PYTHONHASHSEED=h, RAYON_NUM_THREADS=t).splitlines() for h, t in settings)
    assert [line.split()[0] for line in one] == [*TRAINED, "library"]
    assert one[:-1] == other[:-1]
    assert one[-1] != other[-1]  # numbers pieces in the order of a hash table


@pytest.mark.parametrize("name", TRAINED)
def test_the_order_of_the_documents_changes_nothing(name):
    assert trained(name, *TIES)[1].to_json() == trained(name, *reversed(TIES))[1].to_json()


@pytest.mark.parametrize("name", TRAINED)
def test_h29_unseen_characters_are_never_dropped(name):
    recipe, tokenizer = trained(name, *HUGS, **SMALL.get(name, {}))
    assert (tokens(tokenizer, "mug"), tokens(tokenizer, "mug é")) == OF_MUG[name]
    unknown = tokenizer.special_id("unk")
    for text in ("mug é", "é", "é ☃", "☃☃\n", "🙂 hug"):
        (ids,) = recipe.encode(tokenizer, [text])
        assert len(ids) >= len(text.split())
        assert (unknown in ids) == (name not in NO_UNKNOWN)


def test_h29_a_library_tokenizer_without_unk_drops_them():
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.train_from_iterator(HUGS, tokenizers.trainers.BpeTrainer(show_progress=False))
    assert library.encode("mug").tokens == ["ug"]


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


@pytest.mark.parametrize("name", TRAINED)
def test_encoding_is_int64_for_every_document(name):
    recipe, tokenizer = trained(name)
    encoded = recipe.encode(tokenizer, ["ab", "", "<eos>"])
    assert [(ids.dtype, ids.ndim) for ids in encoded] == [(np.dtype("int64"), 1)] * 3
    assert len(encoded[1]) == 0
    assert tokenizer.encode("") == []


@pytest.mark.parametrize("name", TRAINED)
def test_a_tokenizer_survives_its_file(tmp_path, name):
    _, tokenizer = trained(name, *TIES, *HARD.values())
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.from_file(tmp_path / "tokenizer.json")
    assert again.encode(ALL_TEXT) == tokenizer.encode(ALL_TEXT)
    assert again.fingerprint() == tokenizer.fingerprint()
    assert [again.special_id(s) for s in SPECIALS] == [0, 1, 2, 3]


def test_a_tokenizer_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"^there is no tokenizer file .*none\.json$"):
        Tokenizer.from_file(tmp_path / "none.json")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"^/.*/tokenizer\.json is no tokenizer file: .*Model missing"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError, match=r"^cannot read .*tokenizer\.json: Permission denied$"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


def test_a_recipe_must_say_how_it_trains():
    with pytest.raises(NotImplementedError):
        TokenizerRecipe().train([])
    assert TokenizerRecipe().fingerprint() is None  # nothing but keys and text decides
