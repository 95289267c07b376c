"""Which tokens are hidden, how often, by what; and that it depends on the seed and the place alone."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from tests.prepared import prepared
from tfexp.batch import IGNORE, Batch
from tfexp.data.blocks import TrainBlocks
from tfexp.data.masking import MaskedEval, MaskedTrain, Masking, OneByOne
from tfexp.data.words import word_flags
from tfexp.errors import DataError
from tfexp.streams import numpy_stream
from tfexp.training.loader import train_loader

PAD, UNK, BOS, EOS, MASK = SPECIAL = np.arange(5)
V = 25
MASKING = Masking(rate=0.15, mask_share=0.8, random_share=0.1, mask_id=MASK, special_ids=SPECIAL, vocab_size=V)
SPECIALS = ["pad", "unk", "bos", "eos", "mask"]
SENTENCE = "The cat, a small one, sat (and slept); nothing else happened there today!"
SUBWORDS = {
    "bpe": {"name": "bpe", "vocab_size": 290, "specials": SPECIALS},
    "unigram": {"name": "unigram", "vocab_size": 320, "specials": SPECIALS},
    "wordpiece": {"name": "wordpiece", "vocab_size": 80, "specials": SPECIALS},
}
WHOLE = {"char": {"name": "char", "specials": SPECIALS}, "word": {"name": "word", "specials": SPECIALS}}


def tokens(n_rows: int, length: int, seed: int = 0) -> np.ndarray:
    """Rows of ordinary tokens, an end of a document in some places, and nothing at some ends."""
    draw = np.random.default_rng(seed)
    rows = draw.integers(5, V, (n_rows, length))
    rows[draw.random(rows.shape) < 0.1] = EOS
    for row in rows[:: n_rows // 4 or 1]:
        row[draw.integers(1, length) :] = IGNORE
    return rows


def draw(rows: np.ndarray, index: int = 0, masking: Masking = MASKING) -> Batch:
    return masking.batch(rows, [numpy_stream(0, "test", index)])


def test_what_is_chosen_is_asked_for_and_the_rest_is_left_alone():
    rows = tokens(40, 30)
    batch = draw(rows)
    chosen, real = batch.labels.numpy() != IGNORE, rows != IGNORE
    assert (batch.labels.numpy()[chosen] == rows[chosen]).all()
    assert (batch.input_ids.numpy()[real & ~chosen] == rows[real & ~chosen]).all()
    assert not (chosen & (np.isin(rows, SPECIAL) | ~real)).any()
    assert torch.equal(batch.logits_at, batch.labels != IGNORE)
    assert torch.equal(batch.attention_mask, torch.from_numpy(real))
    assert batch.count_tokens() == real.sum()
    assert (batch.input_ids >= 0).all()
    assert draw(tokens(1, 5)[:, :1]).attention_mask is None


def test_the_share_of_each_row_is_exact_but_for_rounding():
    rows = tokens(400, 60)
    n = np.isin(rows, SPECIAL, invert=True).sum(axis=1) - (rows == IGNORE).sum(axis=1)
    counts = np.stack([(draw(rows, k).labels != IGNORE).sum(dim=1).numpy() for k in range(10)])
    assert (np.maximum(np.floor(0.15 * n), 1) <= counts).all()
    assert (counts <= np.maximum(np.ceil(0.15 * n), 1)).all()
    long = n >= 7  # fewer have one in any case
    assert counts[:, long].sum() / (10 * n[long].sum()) == pytest.approx(0.15, abs=0.002)


def test_h14_a_line_of_one_token_always_has_a_target():
    rows = np.array([[7, EOS, IGNORE, IGNORE]])
    assert all(draw(rows, k).scored_labels().tolist() == [7] for k in range(200))


@pytest.mark.parametrize(
    "rows", [tokens(6, 8), np.full((3, 4), EOS), np.full((1, 2), IGNORE)], ids=["text", "ends", "nothing"]
)
def test_h14_with_probability_0_nothing_is_hidden(rows):
    for k in range(20):
        batch = draw(rows, k, replace(MASKING, rate=0.0))
        assert batch.scored_labels().numel() == 0
        assert (batch.input_ids.numpy() == np.maximum(rows, 0)).all()


def test_a_row_without_ordinary_tokens_has_no_target():
    rows = np.array([[EOS, EOS, PAD], [9, EOS, EOS]])
    assert all((draw(rows, k).labels != IGNORE).tolist() == [[False] * 3, [True, False, False]] for k in range(50))


def test_h14_special_tokens_are_never_chosen_nor_put_in():
    rows = np.tile(np.array([[BOS, 9, EOS, PAD, MASK, UNK, 11, EOS]]), (10_000, 1))
    batch = draw(rows, masking=replace(MASKING, rate=0.5, mask_share=0.0, random_share=1.0))
    chosen = batch.labels != IGNORE
    assert set(batch.labels[chosen].tolist()) == {9, 11}
    assert set(batch.input_ids[chosen].tolist()) == set(range(5, V))


def test_h14_a_share_of_15_percent_of_which_80_10_10():
    rows = np.random.default_rng(1).integers(5, V, (2000, 50))
    batch = draw(rows)
    chosen = (batch.labels != IGNORE).numpy()
    read = batch.input_ids.numpy()[chosen]
    masked, kept = read == MASK, read == rows[chosen]
    assert chosen.mean() == pytest.approx(0.15, abs=0.01)
    assert masked.mean() == pytest.approx(0.8, abs=0.01)
    # A random token may be the one that stood there.
    assert kept.mean() == pytest.approx(0.1 + 0.1 / 20, abs=0.01)
    counts = np.bincount(read[~masked & ~kept], minlength=V)[5:]
    assert counts.sum() == pytest.approx(0.1 * 19 / 20 * len(read), rel=0.1)
    assert (counts > 0.6 * counts.mean()).all()
    assert (chosen.mean(axis=0) > 0.12).all()  # every place is as likely


@pytest.mark.parametrize(("mask", "random"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_shares_of_all_and_nothing(mask, random):
    rows = np.random.default_rng(1).integers(5, V, (20, 50))
    batch = draw(rows, masking=replace(MASKING, rate=1.0, mask_share=mask, random_share=random))
    assert torch.equal(batch.labels, torch.from_numpy(rows))
    assert (batch.input_ids == MASK).all() if mask else (batch.input_ids != MASK).all()
    assert torch.equal(batch.input_ids, batch.labels) == (mask + random == 0)


def test_rounding_up_never_asks_for_more_than_there_is():
    class Almost:
        def random(self, shape):
            return np.full(shape, np.nextafter(1, 0))  # 8 + this is 9 in float64

    batch = replace(MASKING, rate=1.0).batch(np.full((1, 8), 9), [Almost()])
    assert (batch.labels == 9).all()


# --- whole words -----------------------------------------------------------------------------------------


def words_of(node: dict, text: str) -> tuple[np.ndarray, list[list[int]], Masking]:
    """A row of ids, the places of each word in it as the library splits them, and how it is masked."""
    data = prepared([SENTENCE] * 3, tokenizer=node)
    encoding = data.tokenizer.backend.encode(text, add_special_tokens=False)
    places: dict[int, list[int]] = {}
    for place, word in enumerate(encoding.word_ids):
        places.setdefault(word, []).append(place)
    special = np.array([data.tokenizer.special_id(name) for name in SPECIALS])
    flags = word_flags(data.tokenizer)
    masking = Masking(0.15, 0.8, 0.1, int(special[4]), special, data.tokenizer.vocab_size, flags)
    return np.array([encoding.ids]), list(places.values()), masking


def chosen_in(row: np.ndarray, masking: Masking, n: int = 600) -> np.ndarray:
    """(n, T) bool: what n draws choose of a row."""
    return (masking.batch(np.tile(row, (n, 1)), [numpy_stream(0, "test")]).labels != IGNORE).numpy()


@pytest.mark.parametrize("node", SUBWORDS.values(), ids=SUBWORDS)
def test_whole_words_are_chosen_or_left_together_and_apart_from_each_other(node):
    row, words, masking = words_of(node, "cat, a tonel one (slept); thing happenedly")
    chosen = chosen_in(row, masking)
    letters = [[place for place in word if not masking.words[1][row[0, place]]] for word in words]
    several = [word for word in letters if len(word) > 1]
    assert len(several) >= 2
    for word in several:
        assert (chosen[:, word].all(axis=1) == chosen[:, word].any(axis=1)).all()
    for first, second in pairwise(words):
        assert (chosen[:, first[-1]] != chosen[:, second[-1]]).any()
    apart = chosen_in(row, replace(masking, words=None))
    assert any((apart[:, word].all(axis=1) != apart[:, word].any(axis=1)).any() for word in several)


@pytest.mark.parametrize("node", WHOLE.values(), ids=WHOLE)
def test_where_tokens_are_whole_words_or_letters_each_stands_for_itself(node):
    row, _, masking = words_of(node, "a small one")
    assert (chosen_in(row, masking) == chosen_in(row, replace(masking, words=None))).all()


def test_whole_words_go_up_to_the_one_in_which_the_share_is_reached():
    flags = np.zeros((2, V), dtype=bool)
    flags[0, [5, 6, 7]] = True  # words of three tokens: 5 8 8, 6 8 8, 7 8 8
    row = np.array([[5, 8, 8, 6, 8, 8, 7, 8, 8]])
    counts = chosen_in(row, replace(MASKING, rate=4 / 9, words=flags)).sum(axis=1)
    assert set(counts.tolist()) == {6}


@pytest.mark.parametrize("node", SUBWORDS.values(), ids=SUBWORDS)
def test_a_document_begins_a_word(node):
    # "cat" begins a text, so in a byte-level vocabulary no space marks it.
    data = prepared(["cat cat", "small cat"], tokenizer=node)
    row, end = data.parts["train"].ids[None].astype(np.int64), data.tokenizer.special_id("eos")
    (first, second) = np.flatnonzero(row[0] == end)
    special = np.array([data.tokenizer.special_id(name) for name in SPECIALS])
    flags = word_flags(data.tokenizer)
    chosen = chosen_in(row, Masking(0.15, 0.8, 0.1, int(special[4]), special, data.tokenizer.vocab_size, flags))
    assert not chosen[:, [first, second]].any()
    assert (chosen[:, first - 1] != chosen[:, first + 1]).any()


# --- batches ---------------------------------------------------------------------------------------------

IDS = np.where(np.arange(103) % 9 == 8, EOS, 5 + np.arange(103) % 20)


def training(seed: int = 0, ids=IDS, batch_size: int = 4, masking: Masking = MASKING) -> MaskedTrain:
    return MaskedTrain(TrainBlocks(ids, 12, batch_size, seed, "blocks"), masking)


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.input_ids, other.input_ids) and torch.equal(one.labels, other.labels)


def test_training_masks_are_a_function_of_seed_and_index():
    made, again = training(), training()
    forwards = [made[k] for k in range(8)]
    assert all(same(a, again[k]) for k, a in reversed(list(enumerate(forwards))))
    assert not same(forwards[0], training(seed=1)[0])


@pytest.mark.parametrize("workers", [0, 2])
def test_the_number_of_workers_changes_no_mask(workers):
    made = training()
    assert all(same(batch, made[3 + k]) for k, batch in enumerate(islice(train_loader(made, 3, workers), 5)))


def test_masks_are_fresh_for_every_batch_and_row():
    made = training(ids=IDS[:13])  # a text of one block: every row is the same
    labels = torch.cat([made[k].labels for k in range(10)])
    rows = torch.cat([torch.where(made[k].labels == IGNORE, made[k].input_ids, made[k].labels) for k in range(10)])
    assert (rows == rows[0]).all()
    assert len({tuple(row) for row in labels.tolist()}) > 20


@pytest.mark.parametrize("n", [103, 96, 5])
def test_evaluation_masks_do_not_depend_on_the_batch_size(n):
    whole, *cut = [MaskedEval(IDS[:n], 12, size, 0, MASKING) for size in (9, 1, 2, 7)]
    expected = [torch.cat([getattr(whole[k], name) for k in range(len(whole))]) for name in ("input_ids", "labels")]
    for batches in cut:
        made = [batches[k] for k in range(len(batches))]
        for name, value in zip(("input_ids", "labels"), expected, strict=True):
            assert torch.equal(torch.cat([getattr(batch, name) for batch in made]), value)
    assert not torch.equal(whole[0].labels[0] != IGNORE, whole[0].labels[-1] != IGNORE) or n < 13


def test_an_evaluation_reads_every_token_once_and_its_last_block_may_be_shorter():
    made = MaskedEval(IDS, 12, 4, 99, MASKING)
    batches = [made[k] for k in range(len(made))]
    read = torch.cat([torch.where(b.labels == IGNORE, b.input_ids, b.labels).flatten() for b in batches])
    assert read[: len(IDS)].tolist() == IDS.tolist()
    assert sum(batch.count_tokens() for batch in batches) == len(IDS)
    assert batches[0].attention_mask is None
    assert batches[-1].attention_mask.sum() == len(IDS) - 8 * 12
    assert made.n_bytes == 99
    with pytest.raises(IndexError):
        made[len(made)]


def test_an_evaluation_without_tokens_is_refused():
    with pytest.raises(DataError, match=r"^data\.val: an evaluation part needs at least 1 token, got 0$"):
        MaskedEval(IDS[:0], 12, 4, 0, MASKING)


@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
def test_one_by_one_hides_every_ordinary_token_once_and_alone(batch_size):
    made = OneByOne(IDS[:29], 12, batch_size, MASKING)
    batches = [made[k] for k in range(len(made))]
    ordinary = IDS[:29][IDS[:29] != EOS]
    assert torch.cat([batch.scored_labels() for batch in batches]).tolist() == ordinary.tolist()
    assert all(((batch.labels != IGNORE).sum(dim=1) == 1).all() for batch in batches)
    assert all(torch.equal(batch.input_ids == MASK, batch.labels != IGNORE) for batch in batches)
    last = batches[-1]
    assert last.input_ids[-1].tolist() == [*IDS[24:28].tolist(), MASK, *[0] * 7]
    assert sum(batch.count_tokens() for batch in batches) == sum(
        12 if k < 24 else 5 for k in np.flatnonzero(IDS[:29] != EOS)
    )
    assert made.n_bytes == 0
    with pytest.raises(IndexError):
        made[len(made)]


def test_inside_documents_positions_and_documents_start_anew():
    masking = replace(MASKING, boundary=EOS)
    row = np.array([[9, EOS, 8, 7, EOS, IGNORE]])
    batch = draw(row, masking=masking)
    assert batch.position_ids.tolist() == [[0, 0, 1, 2, 0, 1]]
    assert batch.document_ids.tolist() == [[0, 1, 1, 1, 2, 2]]
    for batches in (training(masking=masking), MaskedEval(IDS, 12, 4, 0, masking), OneByOne(IDS, 12, 4, masking)):
        assert batches[0].document_ids.shape == batches[0].position_ids.shape == (4, 12)
    for batches in (training(), MaskedEval(IDS, 12, 4, 0, MASKING), OneByOne(IDS, 12, 4, MASKING)):
        assert batches[0].document_ids is batches[0].position_ids is None
