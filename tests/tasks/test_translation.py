"""Translation: smoothed losses, what is decoded and how it is scored, and what a model must beat."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF

from tests import tiny
from tests.prepared import pairs, prepared, spec
from tests.tasks.cases import CASES, Fixed
from tests.tiny import close, normal
from tfexp.batch import IGNORE, Batch
from tfexp.data.corpus import Pair
from tfexp.errors import ConfigError
from tfexp.generation.session import Request, Session
from tfexp.model.ends import Ends
from tfexp.registry import check_choice
from tfexp.tasks.base import EvalPart
from tfexp.tasks.overlap import bleu_scorer, chrf_scorer, signature
from tfexp.tasks.translation import Translation
from tfexp.tasks.translation_floors import nearest_target, translation_floors, word_table
from tfexp.training.evaluate import EvalSet, evaluate

SPEC = spec(batch_size=20)
# H13: logits of two rows, the second of which is ignored; convention, smoothing -> loss; by hand
H13 = {
    "none": ("all", 0.0, 0.40761),
    "all": ("all", 0.1, 0.50761),
    "others": ("others", 0.1, 0.55761),
}
SETTINGS = {"greedy": {}, "beam": {"n_beams": 3}, "some": {"decode_examples": 7}, "none": {"decode_examples": 0}}
TRAIN = [Pair("a red dog", "ein roter hund"), Pair("a dog", "ein hund"), Pair("the red cat", "die rote katze")]


@pytest.fixture(scope="module")
def trained():
    """A model that says some of its training targets right, and the data."""
    data, task = prepared(pairs(40)), Translation(label_smoothing=0.0)
    torch.manual_seed(0)
    sizes = {"vocab_size": data.tokenizer.vocab_size, "d_model": 16, "d_ff": 32, "n_layers": 1}
    net = tiny.model(0, torch.float32, architecture="encoder_decoder", position="rope", **sizes).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    batches = task.train_batches(data, SPEC, 0)
    for k in range(80):
        loss = task.loss(net, batches[k])
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    return net.eval(), data


def one_row(logits, labels) -> tuple[Fixed, Batch]:
    labels = torch.tensor(labels)
    at = labels != IGNORE
    chosen = torch.tensor(logits, dtype=torch.float64)[at]
    return Fixed(chosen), Batch(torch.zeros_like(labels), labels, logits_at=at)


@pytest.mark.parametrize(("smoothing", "share", "expected"), H13.values(), ids=H13)
def test_h13_ignored_labels_are_left_out_of_the_smoothing(smoothing, share, expected):
    task = Translation(label_smoothing=share, smoothing=smoothing)
    made, batch = one_row([[[2, 1, 0], [0, 0, 5]]], [[0, IGNORE]])
    loss = task.loss(made, batch)
    close(loss.total / loss.count, expected, atol=5e-6)
    # The same where every place has logits, and the label alone says that one is ignored.
    wide = Fixed(torch.tensor([[[2.0, 1, 0], [0, 0, 5]]], dtype=torch.float64))
    whole = task.loss(wide, Batch(batch.input_ids, batch.labels))
    close(whole.total / whole.count, expected, atol=5e-6)
    whole.total.backward()
    assert (wide.logits.grad[0, 1] == 0).all()


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_h13_nothing_scored_is_nothing_lost(share):
    wide = Fixed(torch.tensor([[[2.0, 1, 0], [0, 0, 5]]]))
    loss = Translation(label_smoothing=share).loss(wide, Batch(torch.zeros(1, 2).long(), torch.full((1, 2), IGNORE)))
    loss.total.backward()
    assert (loss.total, loss.count) == (0, 0)
    assert (wide.logits.grad == 0).all()


@pytest.mark.parametrize("smoothing", ["all", "others"])
def test_losses_equal_the_sum_over_the_vocabulary(smoothing):
    logits, labels, eps, v = normal(5, 6), [3, 0, 5, 5, 1], 0.2, 6
    expected = 0.0
    for row, label in zip(logits.tolist(), labels, strict=True):
        total = math.log(sum(math.exp(x) for x in row))
        for k, x in enumerate(row):
            rest = eps / v if smoothing == "all" else eps / (v - 1) * (k != label)
            expected -= ((1 - eps) * (k == label) + rest) * (x - total)
    task = Translation(label_smoothing=eps, smoothing=smoothing)
    batch = Batch(torch.zeros(5, 1).long(), torch.tensor(labels)[:, None])
    close(task.loss(Fixed(logits[:, None]), batch).total, expected)
    plain = sum(math.log(sum(map(math.exp, row))) - row[y] for row, y in zip(logits.tolist(), labels, strict=True))
    close(task.score(Fixed(logits[:, None]), batch)["loss"], plain)  # an evaluation is never smoothed


def test_a_target_that_is_cut_is_not_exact():
    rows = [Pair("a a a a", "b"), Pair("a", "b b"), Pair("a", "")]
    data, task = prepared(rows), Translation()
    for seq_len, exact, accuracy in ((3, 1.0, 1.0), (2, 2 / 3, 5 / 6)):  # of 2 + 3 + 1 tokens
        (batch,) = list(task.eval_batches(data, "val", spec(seq_len=seq_len)))
        logits = torch.nn.functional.one_hot(batch.scored_labels(), data.tokenizer.vocab_size).double()
        with torch.no_grad():
            found = task.metrics(task.score(Fixed(logits), batch), 0)
        assert (found["exact_match"], found["accuracy"]) == (pytest.approx(exact), pytest.approx(accuracy))


# --- decoding ------------------------------------------------------------------------------------------------


def targets_of(data) -> list[list[int]]:
    return [row.tolist() for row in data.parts["val"].columns["target"]]


def test_exact_match_is_that_of_greedy_decoding(trained):
    net, data = trained
    task = Translation()
    measured = evaluate(net, task, task.eval_batches(data, "val", SPEC), "32-true")["exact_match"]
    begin, end, pad = (data.tokenizer.special_id(name) for name in ("bos", "eos", "pad"))
    choice = check_choice("generation", {"name": "greedy", "max_new_tokens": SPEC.length}, "generation")
    requests = [Request([begin], [*source.tolist(), end]) for source in data.parts["val"].columns["source"]]
    with Session(net, choice, Ends(begin, end, pad, never=(begin, pad))) as session:
        found = session.answer(requests)
    right = sum(h.ids == target for (h,), target in zip(found, targets_of(data), strict=True))
    assert measured == right / 40
    assert 0.2 < measured < 0.9  # else this says little
    decoded = task.targets(net, data, "val", SPEC, range(40))
    assert sum(text == pair.target for text, pair in zip(decoded, pairs(40), strict=True)) == right


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("final", [False, True])
def test_scores_of_decoded_text_are_sacrebleus(trained, settings, final):
    net, data = trained
    task = Translation(**settings)
    found = task.more_metrics(net, EvalPart(data, "val", SPEC, final, partial(evaluate, net, task)))
    n = min(settings.get("decode_examples", 100), 40)
    expected, references = {}, [pair.target for pair in pairs(40)]
    for suffix, size in (("", 40 if final or n == 40 else 0), ("_subset", n)):
        if size:
            decoded = task.targets(net, data, "val", SPEC, range(size))
            expected[f"bleu{suffix}"] = BLEU().corpus_score(decoded, [references[:size]]).score
            expected[f"chrf{suffix}"] = CHRF().corpus_score(decoded, [references[:size]]).score
    assert found == expected
    assert bool(found) == (final or n > 0)
    assert all(0 < value < 100 for value in found.values())


def test_decoding_may_be_left_out(trained):
    net, data = trained
    task = Translation(decode=False)
    assert task.more_metrics(net, EvalPart(data, "val", SPEC, True, partial(evaluate, net, task))) == {}
    assert task.details({}, ()) == task.floors(data, SPEC) == {}


def test_a_test_part_has_no_subset(trained):
    net, data = trained
    tested = prepared(pairs(40), test=pairs(5, seed=1))
    tested = type(data)(data.tokenizer, tested.parts, (), "", {})
    found = EvalSet(Translation(decode_examples=2), tested, "test", SPEC, "32-true").evaluate(net, final=True)
    assert found.metrics.keys() == {"loss", "perplexity", "accuracy", "exact_match", "bleu", "chrf"}


@pytest.mark.parametrize("batch_tokens", [16, 8192])
def test_decoded_text_stands_in_the_order_asked_for(trained, monkeypatch, batch_tokens):
    net, data = trained
    expected = Translation().targets(net, data, "val", SPEC, range(40))
    monkeypatch.setattr("tfexp.tasks.translation.EVAL_TOKENS", batch_tokens)
    for n_beams in (1, 2):
        task = Translation(n_beams=n_beams, length_penalty=0.0)
        rows = np.array([7, 3, 39, 0, 12])
        found = task.targets(net, data, "val", SPEC, rows)
        assert found == [task.targets(net, data, "val", SPEC, [row])[0] for row in rows]
        assert n_beams > 1 or found == [expected[row] for row in rows]


def test_the_longest_target_is_a_setting(trained):
    net, data = trained
    words = [len(t.split()) for t in Translation(max_target=2).targets(net, data, "val", SPEC, range(40))]
    assert max(words) == 2
    assert max(len(t.split()) for t in Translation().targets(net, data, "val", SPEC, range(40))) > 2
    assert [Translation(max_target=n).longest_input(12) for n in (None, 5, 30)] == [12, 12, 30]


def test_what_a_run_may_watch():
    always = ("loss", "perplexity", "accuracy", "exact_match")
    assert Translation().monitors("pairs") == (*always, "bleu_subset", "chrf_subset")
    assert Translation(decode=False).monitors("pairs") == Translation(decode_examples=0).monitors("pairs") == always


@pytest.mark.parametrize("missing", ["bos", "eos", "pad"])
def test_a_missing_special_token_is_named(trained, missing):
    net, _ = trained
    specials = [name for name in ("pad", "unk", "bos", "eos") if name != missing]
    data = prepared(pairs(5), tokenizer={"name": "word", "specials": specials})
    with pytest.raises(ConfigError) as error:
        Translation().targets(net, data, "val", SPEC, [0, 1])
    message = str(error.value)
    assert message.startswith("data.tokenizer.specials: ")
    assert missing in message
    assert message.endswith("add it") or message.endswith("add them")


# --- signatures and floors -----------------------------------------------------------------------------------


def test_signatures_say_how_it_was_scored():
    details = Translation(n_beams=4, length_penalty=0.6, bleu_tokenizer="char").details({}, ())
    bleu, chrf = details["bleu_signature"], details["chrf_signature"]
    assert bleu.startswith("nrefs:1|case:mixed|eff:no|tok:char|smooth:exp|version:")
    assert chrf.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    assert details["decoding"] == "beam 4, length penalty 0.6"
    assert Translation().details({}, ())["decoding"] == "greedy"
    assert "|tok:13a|" in signature(bleu_scorer("13a"))
    assert signature(bleu_scorer("none")).split("|")[3] == "tok:none"


@pytest.mark.parametrize("tokenizer", ["13a", "none", "char", "intl"])
def test_scores_are_those_of_sacrebleu(tokenizer):
    said, meant = ["the cat sat on the mat .", "a small dog"], ["the cat sat on a mat .", "a very small dog"]
    expected = BLEU(tokenize=tokenizer, force=True).corpus_score(said, [meant]).score
    assert bleu_scorer(tokenizer).corpus_score(said, [meant]).score == expected
    assert chrf_scorer().corpus_score(said, [meant]).score == CHRF().corpus_score(said, [meant]).score


# source -> the target of the most similar source, and word for word; by hand.
# Dice of (a, hund) = 2 * 2 / (2 + 2) and of (a, ein) = 2 * 1 / (2 + 1); of red with all but hund 2 * 1 / (2 + 1),
# with hund 2 * 1 / (2 + 2); of the and cat with die, rote and katze 1; of equals, the last by name.
FLOORS = {
    "the_same": ("a dog", "ein hund", "hund hund"),
    "rare_words_count_more": ("a red the", "die rote katze", "hund roter rote"),  # 1/2 + 1/2 with 0, 1/2 + 1 with 2
    "of_equals_the_shortest": ("dog a", "ein hund", "hund hund"),  # 0 has both words, too, and a third one
    "only_in_part": ("red sun", "ein roter hund", "roter sun"),  # 0 and 2 are equals of one length: the first
    "unknown": ("sun", "ein roter hund", "sun"),
    "nothing": ("", "ein roter hund", ""),
}


@pytest.mark.parametrize(("source", "nearest", "words"), FLOORS.values(), ids=FLOORS)
def test_floors_by_hand(source, nearest, words):
    assert nearest_target(TRAIN)(source) == nearest
    assert word_table(TRAIN)(source) == words


def test_a_word_that_never_had_a_translation_stays():
    assert word_table([Pair("a", "")])("a b") == "a b"


def test_floors_are_scored_as_the_model_is():
    rows = [Pair("a dog", "a dog"), Pair("the red cat", "die rote katze")]
    data = prepared(TRAIN, rows)
    found = translation_floors(data, "none")
    assert list(found) == [f"{name}_{score}" for name in ("copy", "nearest", "words") for score in ("bleu", "chrf")]
    references = [row.target for row in rows]
    said = {
        "copy": [row.source for row in rows],
        "nearest": ["ein hund", "die rote katze"],
        "words": [word_table(TRAIN)(row.source) for row in rows],
    }
    for name, texts in said.items():
        assert found[f"{name}_bleu"] == BLEU(tokenize="none", force=True).corpus_score(texts, [references]).score
        assert found[f"{name}_chrf"] == CHRF().corpus_score(texts, [references]).score
    assert Translation(bleu_tokenizer="none").floors(data, SPEC) == found


def test_one_batch_is_learned_by_heart():
    case = CASES["translation_smoothed"]
    net, task, batch = case.network(torch.float32).train(), case.make(), case.batch(range(6))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(80):
        loss = task.loss(net, batch)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    with torch.no_grad():
        assert task.metrics(task.score(net.eval(), batch), 0)["exact_match"] == 1.0
