"""How rows become a padded batch, for each kind of example; what is cut off, left out, or refused."""

import numpy as np
import pytest
import torch

from tests.prepared import prepared
from tfexp.batch import IGNORE, Batch
from tfexp.data.corpus import Labelled, Pair, Tagged
from tfexp.data.examples import LabelledExamples, PairExamples, PromptExamples, TaggedExamples, pad_rows, select
from tfexp.errors import ConfigError, DataError

PAD, UNK, BOS, EOS = range(4)
WORD = {"name": "word", "specials": ["pad", "unk", "bos", "eos"]}
# The most frequent word has the first id after the special ones: a 4, b 5, c 6.
LABELLED = [Labelled("a a a", ("y",)), Labelled("b", ("x",)), Labelled("", ("y",)), Labelled("b a c b", ("x",))]
SEVERAL = [Labelled("a b", ("x", "z")), Labelled("b a", ()), Labelled("c c a b", ("y",))]
PAIRS = [Pair("a a a", "b"), Pair("b", "a c"), Pair("", "")]
TAGGED = [Tagged("a b a", "_ _ b"), Tagged("c", "a")]
TOO_SHORT = {
    "labelled": (LabelledExamples, LABELLED, 2, "an example of this task needs at least 3 tokens, got 2"),
    "pairs": (PairExamples, PAIRS, 1, "an example of this task needs at least 2 tokens, got 1"),
    "prompts": (
        PromptExamples,
        [Pair("a a a a", "b"), Pair("a a a", "b")],
        3,
        "in none of 2 examples is one of the first 3 tokens to be predicted; raise it to more than 3, and "
        "model.max_seq_len with it",
    ),
    "tagged": (
        TaggedExamples,
        [Tagged("a b a", "_ _ b"), Tagged("c a", "_ a")],
        1,
        "in none of 2 examples is one of the first 1 tokens to be predicted; raise it to more than 1, and "
        "model.max_seq_len with it",
    ),
}
# Kind, rows, length -> labels of each row that lie beyond it.
CUT_OFF = {
    "prompts": (PromptExamples, PAIRS, 4, [1, 0, 0]),  # of b <eos>
    "prompts_whole": (PromptExamples, PAIRS, 3, [2, 1, 0]),
    "prompts_shorter_than_the_source": (PromptExamples, PAIRS, 2, [2, 2, 0]),
    "prompts_that_fit": (PromptExamples, PAIRS, 5, [0, 0, 0]),
    "targets": (PairExamples, PAIRS, 2, [0, 1, 0]),  # a source that is cut asks for no less
    "tags": (TaggedExamples, [*TAGGED, Tagged("a b c a", "a _ c a"), Tagged("a a", "_ _")], 1, [1, 0, 2, 0]),
    "classes": (LabelledExamples, LABELLED, 3, [0, 0, 0, 0]),
}
NO_SPECIALS = {
    "labelled": (LabelledExamples, LABELLED, "bos"),
    "pairs": (PairExamples, PAIRS, "eos"),
    "prompts": (PromptExamples, PAIRS, "bos"),
    "tagged": (TaggedExamples, TAGGED, "pad"),
}


def examples(kind, rows, seq_len=8, tokenizer=WORD, **options):
    data = prepared(rows, tokenizer=tokenizer)
    return kind(data.parts["train"], data.tokenizer, seq_len, **options)


def whole(made) -> Batch:
    return made.batch(np.arange(len(made.rows)))


def test_a_labelled_text_stands_between_its_ends():
    made = examples(LabelledExamples, LABELLED)
    batch = whole(made)
    assert batch.input_ids.tolist() == [
        [BOS, 4, 4, 4, EOS, PAD],
        [BOS, 5, EOS, PAD, PAD, PAD],
        [BOS, EOS, PAD, PAD, PAD, PAD],  # a text of nothing is still an example
        [BOS, 5, 4, 6, 5, EOS],
    ]
    assert batch.attention_mask.tolist() == [[k < n for k in range(6)] for n in (5, 3, 2, 6)]
    assert batch.labels.tolist() == [1, 0, 1, 0]
    assert (batch.labels.dtype, batch.input_ids.dtype) == (torch.int64, torch.int64)
    assert batch.count_tokens() == 16
    assert batch.logits_at is None
    assert (made.lengths.tolist(), made.n_overlong) == ([5, 3, 2, 6], 0)


def test_several_classes_become_zeros_and_ones():
    batch = whole(examples(LabelledExamples, SEVERAL, n_labels=3))
    assert batch.labels.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert batch.labels.dtype == torch.float32


def test_a_pair_for_an_encoder_decoder():
    # G47: the decoder reads the target shifted to the right and is to say it with its end.
    batch = whole(examples(PairExamples, PAIRS))
    assert batch.input_ids.tolist() == [[4, 4, 4, EOS], [5, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]]
    assert batch.attention_mask.tolist() == [[True] * 4, [True, True, False, False], [True, False, False, False]]
    assert batch.decoder_input_ids.tolist() == [[BOS, 5, PAD], [BOS, 4, 6], [BOS, PAD, PAD]]
    assert batch.labels.tolist() == [[5, EOS, IGNORE], [4, 6, EOS], [EOS, IGNORE, IGNORE]]
    assert batch.logits_at.tolist() == (batch.labels != IGNORE).tolist()
    assert batch.count_tokens() == (4 + 2 + 1) + (2 + 3 + 1)
    made = examples(PairExamples, PAIRS)
    assert made.lengths.tolist() == [4, 3, 1]
    assert [side.tolist() for side in made.sides()] == [[4, 2, 1], [2, 3, 1]]


def test_a_pair_for_a_decoder():
    batch = whole(examples(PromptExamples, PAIRS))
    assert batch.input_ids.tolist() == [[4, 4, 4, BOS, 5], [5, BOS, 4, 6, PAD], [BOS, PAD, PAD, PAD, PAD]]
    assert batch.labels.tolist() == [
        [IGNORE, IGNORE, IGNORE, 5, EOS],
        [IGNORE, 4, 6, EOS, IGNORE],
        [EOS, IGNORE, IGNORE, IGNORE, IGNORE],
    ]
    assert batch.logits_at.tolist() == (batch.labels != IGNORE).tolist()
    assert batch.scored_labels().tolist() == [5, EOS, 4, 6, EOS, EOS]
    assert batch.count_tokens() == 10


def test_tagged_tokens_are_scored_where_they_have_a_tag():
    batch = whole(examples(TaggedExamples, TAGGED))
    assert batch.input_ids.tolist() == [[4, 5, 4], [6, PAD, PAD]]
    assert batch.labels.tolist() == [[IGNORE, IGNORE, 5], [4, IGNORE, IGNORE]]
    assert batch.scored_labels().tolist() == [5, 4]
    assert batch.count_tokens() == 4


def test_a_batch_without_padding_has_no_mask():
    made = examples(LabelledExamples, LABELLED)
    assert made.batch(np.array([1, 1])).attention_mask is None
    assert made.batch(np.array([2])).input_ids.tolist() == [[BOS, EOS]]


@pytest.mark.parametrize("kind", [LabelledExamples, PairExamples, PromptExamples])
def test_h25_what_is_too_long_is_cut_where_a_batch_ends_and_counted(kind):
    rows = LABELLED if kind is LabelledExamples else PAIRS
    free, cut = examples(kind, rows, 8), examples(kind, rows, 3)
    assert cut.lengths.tolist() == np.minimum(free.lengths, 3).tolist()
    assert cut.n_overlong == int((free.lengths > 3).sum()) > 0
    batch = whole(cut)
    sides = [batch.input_ids, *([batch.decoder_input_ids] if batch.decoder_input_ids is not None else [])]
    assert all(side.shape[1] <= 3 for side in sides)
    assert batch.count_tokens() == sum(int(side.sum()) for side in cut.sides())


def test_what_a_cut_leaves_of_each_kind():
    labelled = whole(examples(LabelledExamples, LABELLED, 4)).input_ids
    assert labelled[3].tolist() == [BOS, 5, 4, EOS]  # the ends stay
    pair = whole(examples(PairExamples, [Pair("a a a a", "b c b c")], 3))
    assert pair.input_ids.tolist() == [[4, 4, EOS]]  # the end of the source stays
    assert pair.decoder_input_ids.tolist() == [[BOS, 5, 6]]
    assert pair.labels.tolist() == [[5, 6, 5]]  # the target has not ended here, and nothing says so
    prompt = whole(examples(PromptExamples, [Pair("a a", "b c b")], 4))
    assert prompt.input_ids.tolist() == [[4, 4, BOS, 5]]
    assert prompt.labels.tolist() == [[IGNORE, IGNORE, 5, 6]]
    tagged = whole(examples(TaggedExamples, [Tagged("a b c", "a _ c"), Tagged("a b", "_ a")], 1))
    assert (tagged.input_ids.tolist(), tagged.labels.tolist()) == ([[4], [4]], [[4], [IGNORE]])


@pytest.mark.parametrize(("kind", "rows", "seq_len", "cut_off"), CUT_OFF.values(), ids=CUT_OFF)
def test_labels_beyond_the_length_are_counted(kind, rows, seq_len, cut_off):
    made = examples(kind, rows, seq_len)
    assert made.cut_off.tolist() == whole(made).cut_off.tolist() == cut_off
    assert made.n_answers_cut() == sum(n > 0 for n in cut_off)
    if kind is not LabelledExamples:
        kept, all_ = ((whole(m).labels != IGNORE).sum(dim=1) for m in (made, examples(kind, rows, 99)))
        assert (all_ - kept).tolist() == cut_off


def test_of_rows_that_are_left_only_their_own_labels_count():
    kept = examples(PromptExamples, PAIRS, 4).without_overlong()
    assert (kept.rows.tolist(), kept.n_answers_cut(), kept.n_overlong) == ([1, 2], 0, 1)


@pytest.mark.parametrize("overlong", ["truncate", "drop"])
def test_h25_training_examples_are_cut_or_left_out_and_evaluation_never_leaves_out(overlong):
    made = examples(LabelledExamples, LABELLED, 4)
    kept = select(made, overlong)
    assert kept.rows.tolist() == ([0, 1, 2, 3] if overlong == "truncate" else [1, 2])
    assert kept.lengths.tolist() == ([4, 3, 2, 4] if overlong == "truncate" else [3, 2])
    assert kept.n_overlong == made.n_overlong == 2
    assert len(kept.sides()[0]) == len(kept.rows)
    last = kept.batch(np.array([len(kept.rows) - 1])).input_ids
    assert last.tolist() == ([[BOS, 5, 4, EOS]] if overlong == "truncate" else [[BOS, EOS]])


def test_the_sides_of_what_is_left_are_those_of_its_rows():
    made = examples(PairExamples, [Pair("a a a a", "b"), Pair("b", "a c"), Pair("a a", "b")], 4).without_overlong()
    assert made.rows.tolist() == [1, 2]
    assert [side.tolist() for side in made.sides()] == [[2, 3], [3, 2]]


def test_h25_nothing_left_is_an_error_with_all_numbers():
    made = examples(LabelledExamples, [Labelled("a a a", ("x",)), Labelled("b b b b", ("y",))], 4)
    with pytest.raises(DataError) as error:
        select(made, "drop")
    assert str(error.value) == (
        "data.seq_len: none of the 2 training examples fits 4 tokens (the shortest has 5); "
        "raise it or set data.overlong=truncate"
    )
    assert len(select(made, "truncate").rows) == 2


@pytest.mark.parametrize(("kind", "rows", "seq_len", "message"), TOO_SHORT.values(), ids=TOO_SHORT)
def test_a_length_without_room_for_an_example_is_refused(kind, rows, seq_len, message):
    with pytest.raises(DataError) as error:
        examples(kind, rows, seq_len)
    assert str(error.value) == f"data.seq_len: {message}"
    whole(examples(kind, rows, seq_len + 1))


@pytest.mark.parametrize(("kind", "rows", "name"), NO_SPECIALS.values(), ids=NO_SPECIALS)
def test_a_missing_special_token_is_named(kind, rows, name):
    specials = [s for s in ("pad", "unk", "bos", "eos") if s != name]
    made = examples(kind, rows, tokenizer={"name": "word", "specials": specials})
    with pytest.raises(ConfigError) as error:
        whole(made)
    assert str(error.value) == f"data.tokenizer.specials: this task needs the special token '{name}'; add it"


def test_rows_are_padded_on_the_right():
    ids, mask, n_tokens = pad_rows([np.array([5, 6]), np.array([], dtype=np.int64), np.array([7])], 9)
    assert ids.tolist() == [[5, 6], [9, 9], [7, 9]]
    assert mask.tolist() == [[True, True], [False, False], [True, False]]
    assert n_tokens == 3
    empty, mask, n_tokens = pad_rows([np.array([], dtype=np.int64)], 9)
    assert (empty.tolist(), mask.tolist(), n_tokens) == ([[9]], [[False]], 0)  # a batch is never without a column
