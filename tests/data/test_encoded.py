"""Rows of ids end to end: what each kind of example becomes, what is counted, and what is refused."""

import numpy as np
import pytest

from tests.prepared import prepared
from tfexp.batch import IGNORE
from tfexp.data.corpus import Corpus, Labelled, Pair, Tagged
from tfexp.data.encoded import Part, Ragged, count_part, labels_of, ragged, training_texts
from tfexp.errors import DataError

WORD = {"name": "word", "specials": ["pad", "unk", "bos", "eos"]}
END = 3
RAGGED = Ragged(np.array([7, 8, 9, 5]), np.array([3, 3, 4]))
# labels in any order -> classes in the order of their ids
ORDERS = {
    "words": (["pos", "neg", "Pos"], ("Pos", "neg", "pos")),
    "numbers": (["10", "9", "-1"], ("-1", "9", "10")),
    "one_value_twice": (["1", "01", "001"], ("001", "01", "1")),
    "numbers_and_a_word": (["10", "9", "x"], ("10", "9", "x")),
    "no_number": (["--5", "5"], ("--5", "5")),
}
TEXTS = {
    "documents": (["a b", "c"], ["a b", "c"]),
    "labelled": ([Labelled("a b", ("x", "y"))], ["a b"]),
    "pairs": ([Pair("a b", "c d")], ["a b", "c d"]),
    "tagged": ([Tagged("a b", "_ c")], ["a b", "c"]),
}
REFUSED = {
    "label": (
        [[Labelled("a", ("pos",)), Labelled("b", ("neg",))], [Labelled("a", ("pos",)), Labelled("b", ("negg",))]],
        "word",
        "data.val: example 2 has the label 'negg', which the training part has not; did you mean 'neg'?",
    ),
    "tag_of_several_tokens": (
        [[Tagged("a b", "_ ab")]],
        "char",
        "data.train: the label 'ab' is 2 tokens; use data/tokenizer=word",
    ),
    "fewer_labels": (
        [[Tagged("a b", "_ a"), Tagged("a b c", "_ b")]],
        "word",
        "data.train: example 2 has 3 tokens and 2 labels; use data/tokenizer=word",
    ),
    "more_tokens": (
        [[Tagged("a b", "_ a")]],
        "char",
        "data.train: example 1 has 3 tokens and 2 labels; use data/tokenizer=word",
    ),
}


def test_rows_are_what_they_were():
    assert [row.tolist() for row in RAGGED] == [[7, 8, 9], [], [5]]
    assert RAGGED.lengths.tolist() == [3, 0, 1]
    assert len(RAGGED) == 3
    for row in (-1, 3):
        with pytest.raises(IndexError):
            RAGGED[row]


@pytest.mark.parametrize(("vocab_size", "kind"), [(1, np.uint16), (2**16, np.uint16), (2**16 + 1, np.uint32)])
def test_ids_take_the_smallest_type_that_holds_the_vocabulary(vocab_size, kind):
    made = ragged([np.array([vocab_size - 1]), np.array([], dtype=np.int64)], vocab_size)
    assert made.ids.dtype == kind
    assert made.ids.tolist() == [vocab_size - 1]
    assert (made.ends.dtype, made.ends.tolist()) == (np.int64, [1, 1])
    assert len(ragged([], vocab_size)) == 0


def test_documents_end_with_the_end_token():
    data = prepared(["b a b", "", "a"], tokenizer=WORD)
    part, decode = data.parts["train"], data.tokenizer.decode
    assert [row.tolist() for row in part.columns["text"]] == [[5, 4, 5, END], [END], [4, END]]
    assert part.ids.tolist() == [5, 4, 5, END, END, 4, END]
    assert (part.kind, len(part), part.n_bytes, decode([5, 4])) == ("documents", 3, len("b a b") + len("a"), "b a")


def test_bytes_are_counted_in_utf8():
    assert prepared(["é", "😀 a"], tokenizer="byte").parts["train"].n_bytes == 2 + 4 + 2


def test_labelled_texts_keep_their_classes():
    data = prepared([Labelled("a", ("pos",)), Labelled("b", ()), Labelled("", ("pos", "neg"))], tokenizer=WORD)
    part = data.parts["train"]
    assert data.labels == ("neg", "pos")
    assert [row.tolist() for row in part.columns["labels"]] == [[1], [], [1, 0]]
    assert [len(row) for row in part.columns["text"]] == [1, 1, 0]
    assert (part.kind, part.n_bytes, part.texts) == ("labelled", 0, ())


def test_pairs_are_two_columns_and_keep_their_text_where_it_is_compared_with():
    rows = [Pair("a b", "c"), Pair("", "c c")]
    data = prepared(rows, rows[1:], rows, tokenizer=WORD)
    assert {name: part.texts for name, part in data.parts.items()} == {
        "train": (), "val": tuple(rows[1:]), "test": tuple(rows),
    }  # fmt: skip
    assert [len(row) for row in data.parts["train"].columns["source"]] == [2, 0]
    assert [len(row) for row in data.parts["train"].columns["target"]] == [1, 2]


def test_tags_stand_at_their_tokens():
    data = prepared([Tagged("a 1 b 2 a", "_ _ _ _ 1"), Tagged("b", "2")], tokenizer=WORD)
    text, labels = (data.parts["train"].columns[name] for name in ("text", "labels"))
    (one,), (two,) = data.tokenizer.encode("1"), data.tokenizer.encode("2")
    assert [row.tolist() for row in labels] == [[IGNORE] * 4 + [one], [two]]
    assert text.ends.tolist() == labels.ends.tolist()


@pytest.mark.parametrize(("rows", "texts"), TEXTS.values(), ids=TEXTS)
def test_a_tokenizer_sees_every_text_and_no_mark(rows, texts):
    assert training_texts(rows) == texts


@pytest.mark.parametrize(("given", "expected"), ORDERS.values(), ids=ORDERS)
def test_classes_have_an_order_of_their_own(given, expected):
    corpus = Corpus(tuple(Labelled("a", (label,)) for label in given), (Labelled("a", ("never trained",)),))
    assert labels_of(corpus) == expected


def test_other_kinds_have_no_classes():
    assert labels_of(Corpus(("a",), ("b",))) == ()


@pytest.mark.parametrize(("parts", "tokenizer", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_encoded_is_named(parts, tokenizer, message):
    with pytest.raises(DataError) as error:
        prepared(*parts, tokenizer=tokenizer)
    assert str(error.value) == message


def test_the_report_counts_documents_or_examples():
    data = prepared(["a b", "a"], ["a x"], tokenizer=WORD)
    counts = {name: count_part(name, part, data.tokenizer) for name, part in data.parts.items()}
    assert counts["train"] == {"train_documents": 2, "train_tokens": 5, "train_bytes": 4, "train_unknown_rate": 0.0}
    assert counts["val"] == {"val_documents": 1, "val_tokens": 3, "val_bytes": 3, "val_unknown_rate": 1 / 3}
    of_pairs = prepared([Pair("a", "b c")], [Pair("x", "y")], tokenizer=WORD)
    report = count_part("val", of_pairs.parts["val"], of_pairs.tokenizer)
    assert report == {"val_examples": 1, "val_tokens": 2, "val_unknown_rate": 1.0}


def test_labels_are_no_tokens_of_the_report():
    data = prepared([Labelled("a b", ("x",))], tokenizer=WORD)
    assert count_part("train", data.parts["train"], data.tokenizer)["train_tokens"] == 2
    without = prepared(["a"], tokenizer={"name": "word", "specials": []})
    assert count_part("val", without.parts["val"], without.tokenizer)["val_unknown_rate"] == 0.0
    assert count_part("val", Part("documents", {"text": ragged([], 5)}), without.tokenizer)["val_tokens"] == 0
