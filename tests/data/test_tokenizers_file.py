"""Tokenizers that others have made, each of a kind that is published."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Library

from tests.data.test_tokenizers import HUGS, tokens, trained
from tfexp.data.tokenization import Tokenizer, TokenizerRecipe
from tfexp.data.tokenizer.file import FileTokenizer
from tfexp.data.words import holds_space
from tfexp.errors import ConfigError, DataError

NAMES = ("pad", "unk", "bos", "eos", "mask", "sep")


def bert() -> Library:
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.normalizer, library.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    library.train_from_iterator(HUGS, trainers.WordPieceTrainer(special_tokens=special, show_progress=False))
    library.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    library.decoder = decoders.WordPiece()
    library.enable_padding(length=9)
    library.enable_truncation(3)
    return library


def t5() -> Library:
    library = Library(models.Unigram())
    library.pre_tokenizer, library.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", "<extra_id_0>"]
    trainer = trainers.UnigramTrainer(special_tokens=special, unk_token="<unk>", vocab_size=60, show_progress=False)
    library.train_from_iterator(HUGS, trainer)
    return library


def gpt2() -> Library:
    library = Library(models.BPE(dropout=0.5))
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    library.train_from_iterator(
        HUGS,
        trainers.BpeTrainer(
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return library


def llama() -> Library:
    """Whole words are looked up first, special ones among them."""
    return Library.from_str(gpt2().to_str().replace('"ignore_merges":false', '"ignore_merges":true'))


def characters(*special: str) -> Library:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=list(special), show_progress=False)
    library.train_from_iterator(HUGS, trainer)
    return library


def words(*special: str) -> Library:
    """Text is looked up as it stands, and ids have holes."""
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "hug": 2, "_": 3, "[EOS]": 7, "a": 8}
    library = Library(models.WordLevel(vocabulary, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens(list(special))
    return library


# A file, the ids of the six names in it, and what becomes of `mug é`.
FILES: dict[str, tuple[Callable[[], Library], tuple[int | None, ...], list[str]]] = {
    "bert": (bert, (0, 1, 2, 3, 4, 3), ["[UNK]", "[UNK]"]),
    "t5": (t5, (0, 2, None, 1, None, 1), ["▁", "<unk>", "u", "g", "▁", "<unk>"]),
    "gpt2": (gpt2, (None, None, 0, 0, None, None), ["m", "ug", "Ġ", "Ã", "©"]),
    "llama": (llama, (None, None, 0, 0, None, None), ["m", "ug", "Ġ", "Ã", "©"]),
    "characters": (lambda: characters("<s>", "<unk>"), (None, 1, 0, None, None, None), ["<unk>", "ug", "<unk>"]),
    "words": (lambda: words("[PAD]", "[EOS]"), (0, 1, None, 7, None, None), ["[UNK]", "[UNK]"]),
}
LITERAL = "</s> [PAD] a[SEP]a [EOS]\n<pad><s> <|endoftext|> <extra_id_0> [EOS] [MASK]"
REFUSED = {
    "drops_unknown_text": (
        lambda: characters("<s>"),
        {},
        "data.tokenizer.path: {file} would leave out what it does not know; choose a file with an unknown token, "
        "or name it with data.tokenizer.unk",
    ),
    "one_character": (
        lambda: words("_"),
        {},
        "data.tokenizer.path: {file}: text that holds '_' would produce this special token; choose another file",
    ),
    "no_such_token": (
        bert,
        {"pad": "[PADD]"},
        "data.tokenizer.pad: {file} has no token '[PADD]'; did you mean '[PAD]'?",
    ),
    "another_unknown_token": (
        bert,
        {"unk": "[PAD]"},
        "data.tokenizer.unk: the model in {file} writes it '[UNK]'; set data.tokenizer.unk=null",
    ),
}
BERT = bert().to_str()
NORMALIZER = f'"normalizer":{json.dumps(json.loads(BERT)["normalizer"], separators=(",", ":"))}'
DAMAGED = {
    "empty": b"",
    "no_json": b"\x80\x00",
    "no_tokenizer": b"{}",
    "cut": BERT.encode()[:-200],
    "unknown_part": BERT.replace('{"type":"BertPreTokenizer"}', '{"type":"Nothing"}').encode(),
    "panic": BERT.replace(NORMALIZER, '"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"}').encode(),
}


def read(folder: Path, library: Library, **options) -> tuple[TokenizerRecipe, Tokenizer]:
    library.save(str(folder / "tokenizer.json"))
    return trained("file", path=str(folder / "tokenizer.json"), **options)


@pytest.mark.parametrize(("make", "ids", "of_mug"), FILES.values(), ids=FILES)
def test_the_special_tokens_of_a_file_are_found_and_noted(tmp_path, make, ids, of_mug):
    _, tokenizer = read(tmp_path, make())
    assert tuple(tokenizer.special_id(name) for name in NAMES) == ids
    (tmp_path / "run.json").write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.from_file(tmp_path / "run.json")
    assert tuple(again.special_id(name) for name in NAMES) == ids
    assert again.fingerprint() == tokenizer.fingerprint()
    once_more = trained("file", path=str(tmp_path / "run.json"))[1]
    assert tuple(once_more.special_id(name) for name in NAMES) == ids
    assert Library.from_file(str(tmp_path / "run.json")).encode("hug").ids == again.encode("hug")


@pytest.mark.parametrize(("make", "ids", "of_mug"), FILES.values(), ids=FILES)
def test_h29_a_file_drops_nothing_and_adds_nothing(tmp_path, make, ids, of_mug):
    recipe, tokenizer = read(tmp_path, make())
    assert tokens(tokenizer, "mug é") == of_mug
    texts = ["mug é", "hug " * 20, "é", ""]
    encoded = [row.tolist() for row in recipe.encode(tokenizer, texts)]
    assert encoded == [tokenizer.encode(text) for text in texts]
    assert all(len(row) >= len(text.split()) for row, text in zip(encoded, texts, strict=True))
    assert encoded[-1] == []


@pytest.mark.parametrize(("make", "ids", "of_mug"), FILES.values(), ids=FILES)
def test_text_never_produces_a_special_token_of_a_file(tmp_path, make, ids, of_mug):
    recipe, tokenizer = read(tmp_path, make())
    added = tokenizer.backend.get_added_tokens_decoder()
    for text in (LITERAL, *LITERAL.split(), LITERAL.replace(" ", "")):
        produced = {*tokenizer.encode(text), *recipe.encode(tokenizer, [text])[0].tolist()} & {*added, *ids}
        assert produced <= {tokenizer.special_id("unk")}


@pytest.mark.parametrize("make", [t5, lambda: words("[PAD]", "[EOS]")], ids=["t5", "words"])
def test_as_they_are_some_files_do_produce_them(make):
    assert {0, 1, 7} & {*Tokenizer(make()).encode("</s> [PAD] [EOS]")}


def test_where_text_is_safe_a_file_is_left_as_it_is(tmp_path):
    _, tokenizer = read(tmp_path, bert())
    kept = ("normalizer", "pre_tokenizer", "decoder", "added_tokens")
    before, after = json.loads((tmp_path / "tokenizer.json").read_text()), json.loads(tokenizer.to_json())
    assert [after[part] for part in kept] == [before[part] for part in kept]
    assert after["model"] == before["model"]
    assert after["truncation"] is after["padding"] is None


def test_special_tokens_are_not_decoded_and_text_is(tmp_path):
    _, tokenizer = read(tmp_path, gpt2())
    text = "hugs <|endoftext|> é 🙂\n"
    assert tokenizer.decode([0, *tokenizer.encode(text), 0]) == text


def test_dropout_of_a_file_is_switched_off(tmp_path):
    recipe, tokenizer = read(tmp_path, gpt2())
    assert len({tuple(recipe.encode(tokenizer, ["hugs pun bun"])[0].tolist()) for _ in range(20)}) == 1
    library = gpt2()
    assert len({tuple(library.encode("hugs pun bun").ids) for _ in range(50)}) > 1


def test_special_tokens_can_be_named(tmp_path):
    _, tokenizer = read(tmp_path, words(), eos="[EOS]", sep="hug", pad="hug")
    assert tuple(tokenizer.special_id(name) for name in NAMES) == (2, 1, None, 7, None, 2)
    assert tokens(tokenizer, "hug a [EOS]") == ["[UNK]", "[UNK]", "a", "[UNK]", "[UNK]"]
    assert tokenizer.vocab_size == 9  # ids 4 to 6 are not used


def test_a_token_that_was_added_without_being_special_becomes_it(tmp_path):
    library = words()
    library.add_tokens([AddedToken("[EOS]", special=False)])
    _, tokenizer = read(tmp_path, library)
    assert tokenizer.special_id("eos") == 7
    assert 7 not in tokenizer.encode("a [EOS] a")


def test_an_unknown_token_outside_the_model_is_of_no_use(tmp_path):
    library = characters("<s>")
    library.add_special_tokens(["<unk>"])
    with pytest.raises(DataError, match=r"would leave out what it does not know"):
        read(tmp_path, library)


def test_text_that_a_file_cannot_hold_is_named(tmp_path):
    recipe, tokenizer = read(tmp_path, Library(models.WordLevel({"hug": 0}, unk_token="")))
    message = r"^data\.tokenizer: no token for 'mug', and no 'unk' to stand for it; choose a file with an unknown tok"
    with pytest.raises(DataError, match=message):
        recipe.encode(tokenizer, ["hug", "mug"])
    with pytest.raises(DataError, match=r"^the tokenizer has no token for 'mug', and no 'unk' either$"):
        tokenizer.encode("mug")


@pytest.mark.parametrize(("make", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, make, options, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, make(), **options)
    assert str(error.value) == message.format(file=tmp_path / "tokenizer.json")


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_one_line(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(DataError) as error:
        trained("file", path=str(tmp_path / "tokenizer.json"))
    assert str(error.value).startswith(f"data.tokenizer.path: {tmp_path}/tokenizer.json is no tokenizer file: ")
    assert "\n" not in str(error.value)
    assert content != BERT.encode()


def test_a_missing_file_is_named(tmp_path):
    message = r"^data\.tokenizer\.path: cannot read .*/none\.json: No such file or directory$"
    for use in (FileTokenizer.fingerprint, lambda recipe: recipe.train([])):
        with pytest.raises(DataError, match=message):
            use(FileTokenizer(path=str(tmp_path / "none.json")))
    with pytest.raises(ConfigError, match=r"^data\.tokenizer\.path: a value is missing"):
        trained("file")


def test_another_content_is_another_tokenizer(tmp_path):
    recipe, _ = read(tmp_path, gpt2())
    before = recipe.fingerprint()
    assert recipe.fingerprint() == before
    bert().save(str(tmp_path / "tokenizer.json"))
    assert recipe.fingerprint() != before


@pytest.mark.parametrize(("library", "holds"), [(gpt2, True), (t5, True), (bert, False), (characters, False)])
def test_whether_a_words_token_holds_the_space_before_it(library, holds):
    assert holds_space(Tokenizer(library())) is holds
