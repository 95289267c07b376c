"""Words, WordPiece and unigram pieces against what a few lines of Python make of the definition."""

from collections import Counter
from itertools import combinations
from math import exp, log, prod

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_tokenizers import HUGS, tokens, trained, vocabulary
from tests.real_data import FOLDER as DATA
from tfexp.data.tokenization import SPACE, byte_names
from tfexp.data.tokenizer import unigram
from tfexp.errors import ConfigError, DataError

MOSES = DATA / "multi30k" / "tok" / "test_2016_flickr.lc.norm.tok.de"
WORDS = "b b b c c c a a d <eos> <unk> <unk>"
KEPT_WORDS = {
    "all": ({}, ["b", "c", "a", "<", ">", "d", "eos"]),  # by frequency, then as text
    "max_vocab": ({"max_vocab": 7}, ["b", "c", "a"]),
    "min_count": ({"min_count": 3}, ["b", "c"]),
    "both": ({"min_count": 3, "max_vocab": 5}, ["b"]),
}
NO_WORDS = {
    "max_vocab": ({"max_vocab": 4}, "lower min_count=1 or raise max_vocab=4"),
    "min_count": ({"min_count": 9}, "lower min_count=9 or raise max_vocab=None"),
}
BAD_SIZES = {
    "word": ({"max_vocab": 0}, "data.tokenizer.max_vocab: must be >= 1, got 0"),
    "word_min_count": ({"min_count": 0}, "data.tokenizer.min_count: must be >= 1, got 0"),
    "wordpiece": ({"vocab_size": 7}, "data.tokenizer.vocab_size: must be >= 8, got 7"),
    "unigram": ({"vocab_size": 263}, "data.tokenizer.vocab_size: must be >= 264, got 263"),
}
PROSE = (
    "The quick brown fox jumps over the lazy dog, and the dogs' owner (a quiet man) isn't amused.",
    "Quickly, the foxes jumped; the laziest dog slept on. Nothing is as quick as the quickest fox!",
    "Owners of lazy dogs over-sleep: unamused, unquiet, unjumping... 3.5 foxes of 10, i.e. 35%.",
)
IN_PIECES = {
    "word": ("foxes", ["foxes"]),
    "inside": ("unfoxed", ["un", "##f", "##o", "##x", "##ed"]),
    "punctuation": ("fox,dog!", ["fox", ",", "dog", "!"]),
    "symbols": ("3+5", ["3", "<unk>", "5"]),
    "unseen_first": ("édogs", ["<unk>", "##d", "##o", "##g", "##s"]),
    "unseen_inside": ("dogéa", ["dog", "<unk>", "##a"]),
    "unseen_only": ("éé é", ["<unk>", "<unk>", "<unk>"]),
    "spaces": (" \t fox\n\u2003", ["fox"]),
    "literal_unk": ("<unk>", ["<unk>", "un", "##k", "<unk>"]),  # the signs are unknown, not the text between
    "literal_mark": ("##dogs", ["<unk>", "<unk>", "dogs"]),
}


@pytest.mark.parametrize(("options", "kept"), KEPT_WORDS.values(), ids=KEPT_WORDS)
def test_words_are_in_order_of_their_frequency(options, kept):
    _, tokenizer = trained("word", WORDS, **options)
    assert vocabulary(tokenizer)[4:] == kept


@pytest.mark.parametrize(("options", "message"), NO_WORDS.values(), ids=NO_WORDS)
def test_a_vocabulary_without_a_word_is_refused(options, message):
    with pytest.raises(DataError) as error:
        trained("word", WORDS, **options)
    assert str(error.value) == f"data.tokenizer: none of the 7 words of the training part is left; {message}"


@pytest.mark.parametrize("name", BAD_SIZES)
def test_sizes_out_of_range_are_refused(name):
    options, message = BAD_SIZES[name]
    with pytest.raises(ConfigError) as error:
        trained(name.split("_")[0], "text", **options)
    assert str(error.value) == message


def test_words_are_what_stands_between_spaces():
    recipe, tokenizer = trained("word", "a, b\tc\u2003d\x1ce\r\nf")
    assert tokens(tokenizer, "a, b c d e f a") == ["a,", "b", "c", "d", "e", "f", "<unk>"]
    assert tokenizer.decode(recipe.encode(tokenizer, ["f\n\n b "])[0].tolist()) == "f b"


def test_a_word_like_a_special_token_is_taken_apart():
    _, tokenizer = trained("word", WORDS)
    assert tokens(tokenizer, "b <eos> <eos>\n<pad> x<eos>") == [
        *("b", "<", "eos", ">", "<", "eos", ">", "<", "<unk>", ">", "<unk>")
    ]
    assert tokens(tokenizer, "<unk> a") == ["<unk>", "a"]


def test_without_unk_an_unseen_word_is_named():
    recipe, tokenizer = trained("word", "hug pug", specials=["eos"])
    message = r"^data\.tokenizer: no token for 'mug', and no 'unk' to stand for it; add 'unk' to data\.tokenizer\.spec"
    with pytest.raises(DataError, match=message):
        recipe.encode(tokenizer, ["hug", "pug mug"])
    with pytest.raises(DataError, match=r"^the tokenizer has no token for 'mug', and no 'unk' either$"):
        tokenizer.encode("hug mug")
    assert recipe.encode(tokenizer, [""])[0].tolist() == tokenizer.encode("") == []


@pytest.mark.parametrize(("text", "pieces"), IN_PIECES.values(), ids=IN_PIECES)
def test_words_are_cut_into_the_longest_pieces(text, pieces):
    _, tokenizer = trained("wordpiece", *PROSE, vocab_size=200)
    assert tokens(tokenizer, text) == pieces


@given(st.text(alphabet="dogsfxe éab", min_size=1))
def test_wordpiece_is_the_greedy_loop_that_everybody_would_write(text):
    _, tokenizer = trained("wordpiece", *PROSE, vocab_size=150)
    vocabulary = tokenizer.backend.get_vocab()
    expected = []
    for word in text.split():
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
            end = next(ends, None)
            expected.append("<unk>" if end is None else mark + word[start:end])
            start = start + 1 if end is None else end
    assert tokens(tokenizer, text) == expected


def test_pieces_are_added_by_the_frequency_of_the_pair():
    _, tokenizer = trained("wordpiece", *HUGS, vocab_size=21)
    characters = sorted(set("".join(HUGS)) - {" "})
    assert vocabulary(tokenizer)[4:18] == [*characters, *(f"##{c}" for c in characters)]
    # ug: 15 pairs; then un and the three of h, p and b before an ug or un: 10, 10, ..., the earliest numbers first.
    assert vocabulary(tokenizer)[18:] == ["##ug", "hug", "##un"]


def test_the_most_frequent_characters_have_room():
    _, tokenizer = trained("wordpiece", "aaa bbb cc d", vocab_size=9)
    assert vocabulary(tokenizer)[4:] == ["a", "b", "##a", "##b", "aa"]
    assert tokens(tokenizer, "abc d") == ["a", "##b", "<unk>", "<unk>"]


def test_a_vocabulary_without_a_character_is_refused():
    message = (
        r"^data\.tokenizer\.vocab_size: no character of the training part is left; 8 tokens must hold 4 special "
        r"ones and each character twice$"
    )
    with pytest.raises(DataError, match=message):
        trained("wordpiece", " \n", vocab_size=8)


def test_without_unk_an_unseen_character_of_a_word_is_named():
    recipe, tokenizer = trained("wordpiece", *HUGS, specials=["eos"])
    with pytest.raises(DataError, match=r"^data\.tokenizer: no token for 'mug', and no 'unk' to stand for it; add"):
        recipe.encode(tokenizer, ["hug", "pug mug"])


def test_a_long_word_is_cut_not_unknown():
    _, tokenizer = trained("wordpiece", *HUGS)
    ids = tokenizer.encode("hugs" * 100)
    assert tokenizer.special_id("unk") not in ids
    assert tokenizer.decode(ids).replace(" ", "") == "hugs" * 100


def test_wordpiece_decodes_to_words_with_single_spaces():
    _, tokenizer = trained("wordpiece", *PROSE)
    assert tokenizer.decode(tokenizer.encode("the  lazy\ndog isn't")) == "the lazy dog isn ' t"
    assert tokenizer.decode(tokenizer.encode("édog do not")) == "dog do not"  # no mark, and no words changed


def cuts(word: str) -> list[list[str]]:
    """Every way to cut a word."""
    places = [c for n in range(len(word)) for c in combinations(range(1, len(word)), n)]
    return [[word[a:b] for a, b in zip((0, *c), (*c, len(word)), strict=True)] for c in places]


def likelihood(words: dict[str, int], probability: dict[str, float]) -> float:
    ways = {w: sum(prod(probability.get(p, 0.0) for p in cut) for cut in cuts(w)) for w in words}
    return sum(count * log(ways[w]) for w, count in words.items())


def lattice_of(words: dict[str, int]) -> tuple[unigram._Lattice, np.ndarray, list[str]]:
    lattice, probability = unigram._seeds(unigram._cut_words(Counter(words), byte_names()))
    return lattice, probability, [piece.decode("latin-1") for piece in lattice.pieces]


def test_unigram_counts_pieces_over_all_ways_to_cut():
    words = {"hugs": 5, "hug": 3, "shun": 2}
    lattice, start, pieces = lattice_of(words)
    probability = dict(zip(pieces, start.tolist(), strict=True))
    expected = dict.fromkeys(pieces, 0.0)
    for word, count in words.items():
        ways = [(prod(probability.get(p, 0.0) for p in cut), cut) for cut in cuts(word)]
        for chance, cut in ways:
            for piece in cut:
                expected[piece] = expected.get(piece, 0.0) + count * chance / sum(c for c, _ in ways)
    found = lattice.per_piece(lattice.posterior(start))
    np.testing.assert_allclose(found, [expected[piece] for piece in pieces], rtol=1e-12, atol=1e-300)


def test_unigram_loses_what_the_likelihood_loses_without_the_piece():
    words = {"hugs": 5, "hug": 3, "shun": 2}  # no piece of two letters is twice in a word
    lattice, start, pieces = lattice_of(words)
    probability = dict(zip(pieces, start.tolist(), strict=True))
    used = lattice.posterior(start)
    loss = dict(zip(pieces, lattice.per_piece(-np.log1p(-np.minimum(used, 1 - 2**-53))).tolist(), strict=True))
    for piece in ("hug", "ug", "gs", "un"):
        without = {p: chance for p, chance in probability.items() if p != piece}
        assert loss[piece] == pytest.approx(likelihood(words, probability) - likelihood(words, without), rel=1e-9)


def test_unigram_finds_the_most_probable_cut():
    _, tokenizer = trained("unigram", *PROSE, vocab_size=320)
    model = tokenizer.backend.model
    scores = {p: s for p, s in unigram._learn(word_counts(), 316) if p.isascii()}
    for word in ("foxes", "unquiet", "quickly"):
        best = max(cuts(word), key=lambda cut: prod(exp(scores.get(piece, -99.0)) for piece in cut))
        assert [token.value for token in model.tokenize(word)] == best


def word_counts() -> Counter[str]:
    splitter = unigram.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return Counter(word for text in PROSE for word, _ in splitter.pre_tokenize_str(text))


def test_unigram_has_the_size_asked_for_and_every_byte():
    for size in (264, 300, 350):
        listed = vocabulary(trained("unigram", *PROSE, vocab_size=size)[1])
        assert len(listed) == size
        assert set(byte_names()) <= set(listed)
    assert len(vocabulary(trained("unigram", "ab ab", vocab_size=1000)[1])) == 4 + 256 + 1  # only `ab` is there twice


def test_unigram_pieces_beat_bytes_and_stay_inside_words():
    _, tokenizer = trained("unigram", *PROSE * 5, vocab_size=400)
    text = " ".join(PROSE)
    assert len(tokenizer.encode(text)) < len(text) / 2
    assert not any("Ġ" in piece[1:] for piece in vocabulary(tokenizer)[4:] if piece.strip("Ġ"))


def test_unigram_begins_with_a_bounded_number_of_pieces(monkeypatch):
    monkeypatch.setattr(unigram, "MOST_SEEDS", 280)
    lattice, probability = unigram._seeds(unigram._cut_words(word_counts(), byte_names()))
    assert len(lattice.pieces) == len(probability) == 280
    assert lattice.pieces[:256] == [bytes([byte]) for byte in range(256)]


def test_unigram_learns_from_long_words_without_underflow():
    _, tokenizer = trained("unigram", "é☃" * 500 + "\x00\x01\x02" * 50, vocab_size=300)
    assert np.isfinite([score for _, score in unigram._learn(Counter({"ab" * 400: 3}), 300)]).all()
    assert tokenizer.decode(tokenizer.encode("☃é" * 40)) == "☃é" * 40


def test_what_text_is_split_at_is_what_python_splits_at():
    every = "".join("a" + chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(f"[{SPACE}]+"), behavior="removed")
    assert [word for word, _ in split.pre_tokenize_str(every)] == every.split()


@pytest.mark.skipif(not MOSES.is_file(), reason="no Multi30k below TFEXP_TEST_DATA")
@pytest.mark.parametrize("name", ["bpe", "unigram", "word"])
def test_moses_tokenised_text_comes_back_as_it_was(name):
    lines = MOSES.read_text(encoding="utf-8").splitlines()
    recipe, tokenizer = trained(name, *lines)
    encoded = recipe.encode(tokenizer, lines)
    assert len(lines) == 1000
    assert [tokenizer.decode(ids.tolist()) for ids in encoded] == lines
