"""Masked language modelling: what is scored, what the numbers mean, and what cannot be masked."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests import prepared as made
from tests.tasks.cases import CASES, WORD, Fixed
from tests.tiny import close, normal
from tfexp.batch import IGNORE, Batch
from tfexp.data.encoded import ragged
from tfexp.data.floors import ngram_entropies
from tfexp.errors import ConfigError
from tfexp.registry import check_choice, create
from tfexp.tasks.base import EvalPart, Prompts
from tfexp.tasks.masked_lm import MaskedLM
from tfexp.training.evaluate import evaluate

LN2 = math.log(2)
# sums, bytes of the text -> loss, perplexity, bits per byte, accuracy; by hand
METRICS = {
    "two_bits_a_token": ((6 * LN2, 3, 2, 20), 40, 2 * LN2, 4.0, 1.0, 2 / 3),
    "no_text": ((3.0, 3, 0, 20), 0, 1.0, math.e, None, 0.0),
    "nothing_hidden": ((0.0, 0, 0, 20), 40, 0.0, 1.0, 0.0, 0.0),
    "hopeless": ((2000.0, 2, 0, 2), 0, 1000.0, math.inf, None, 0.0),
}
M = "<mask>"
# Tokenizer, a text with gaps, the tokens that are read: a hidden word's token took the space before it along, where
# a token holds one; where spaces are tokens of their own, they stay.
GAPS = {
    "bpe": ("bpe", f"ant {M} cat", ["ant", M, "Ġcat"]),
    "bpe_in_a_row": ("bpe", f" {M} {M} ant{M}", [M, M, "Ġant", M]),
    "bpe_two_spaces": ("bpe", f"ant  {M} ", ["ant", "Ġ", M, "Ġ"]),
    "unigram": ("unigram", f"ant {M} cat", ["ant", M, "Ġcat"]),
    "char": ("char", f"a {M}t", ["a", " ", M, "t"]),
    "byte": ("byte", f"a {M}t", ["a", "Ġ", M, "t"]),
    "word": ("word", f"ant {M} cat", ["ant", M, "cat"]),
    "wordpiece": ("wordpiece", f"ant {M} cat", ["ant", M, "cat"]),
}
SPEC = made.spec(seq_len=12)


def data(texts=None, tokenizer=WORD):
    return made.prepared(texts or made.texts(23), tokenizer=tokenizer)


def part(prepared, final: bool, score) -> EvalPart:
    return EvalPart(prepared, "val", SPEC, final, score)


def test_losses_are_those_of_the_hidden_tokens_alone():
    logits, labels = normal(5, 7), torch.tensor([[IGNORE, 2, 6], [0, IGNORE, 3], [IGNORE, 5, IGNORE]])
    batch = Batch(torch.zeros(3, 3, dtype=torch.int64), labels, logits_at=labels != IGNORE, n_tokens=8)
    expected, hits = 0.0, 0
    for row, label in zip(logits.tolist(), (2, 6, 0, 3, 5), strict=True):
        expected += math.log(sum(math.exp(x) for x in row)) - row[label]
        hits += max(range(7), key=row.__getitem__) == label
    loss, sums = MaskedLM().loss(Fixed(logits), batch), MaskedLM().score(Fixed(logits), batch)
    close(loss.total, expected)
    close(sums["loss"], expected)
    assert (loss.count, sums["count"], sums["correct"], sums["tokens"]) == (5, 5, hits, 8)


@pytest.mark.parametrize(("sums", "n_bytes", "loss", "perplexity", "bits", "accuracy"), METRICS.values(), ids=METRICS)
def test_metrics_by_hand(sums, n_bytes, loss, perplexity, bits, accuracy):
    named = zip(("loss", "count", "correct", "tokens"), (torch.tensor(float(x)) for x in sums), strict=True)
    metrics = MaskedLM().metrics(dict(named), n_bytes)
    assert metrics["loss"] == pytest.approx(loss, rel=1e-6)
    assert metrics["perplexity"] == pytest.approx(perplexity, rel=1e-6)
    assert metrics.get("bits_per_byte") == (bits if bits is None else pytest.approx(bits, rel=1e-6))
    assert metrics["accuracy"] == pytest.approx(accuracy)


@pytest.mark.parametrize("rate", [0.0, 0.15])
def test_h14_a_short_batch_is_never_nan(rate):
    one = made.prepared(["ant"], tokenizer=WORD)
    task, net = MaskedLM(rate=rate), CASES["masked_lm"].network(torch.float32)
    batches = task.train_batches(one, made.spec(seq_len=1, batch_size=1), 0)
    for k in range(200):
        loss = task.loss(net, batches[k])
        assert loss.count == (rate > 0)
        assert loss.total.isfinite()
        assert (loss.total > 0) == (rate > 0)
    loss.total.backward()
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)
    found = evaluate(net, task, task.eval_batches(one, "val", made.spec(seq_len=4)), "32-true")
    assert all(math.isfinite(value) for value in found.values())
    assert (found["loss"] > 0) == (rate > 0)


def test_the_settings_reach_the_masks():
    prepared = data()
    everything = MaskedLM(rate=1.0, mask_share=1.0, random_share=0.0).train_batches(prepared, SPEC, 0)[0]
    mask, specials = prepared.tokenizer.special_id("mask"), {0, 1, 2, 3, 4}
    assert mask == 4
    hidden = everything.labels != IGNORE
    assert (everything.input_ids[hidden] == mask).all()
    assert specials >= set(everything.input_ids[~hidden].tolist()) > set()  # ends of documents are left
    assert not specials & set(everything.labels[hidden].tolist())
    kept = MaskedLM(rate=1.0, mask_share=0.0, random_share=0.0).train_batches(prepared, SPEC, 0)[0]
    assert torch.equal(kept.input_ids[kept.logits_at], kept.scored_labels())


def test_whole_words_are_chosen_where_they_are_asked_for():
    pieces = {"name": "wordpiece", "vocab_size": 40, "specials": ["pad", "unk", "bos", "eos", "mask"]}
    prepared = data(tokenizer=pieces)
    word, single = (
        MaskedLM(whole_words=w).train_batches(prepared, made.spec(batch_size=60), 0)[0] for w in (True, False)
    )
    inside = np.array([prepared.tokenizer.backend.id_to_token(i).startswith("##") for i in range(40)])

    def torn(batch: Batch) -> int:
        """Words of which a part is hidden: a piece from inside a word stands after its neighbour."""
        ids = torch.where(batch.logits_at, batch.labels, batch.input_ids)[:, 1:]
        continues = torch.from_numpy(inside[ids.numpy()])
        return int((continues & (batch.logits_at[:, 1:] != batch.logits_at[:, :-1])).sum())

    assert torn(word) == 0 < torn(single)


def test_training_is_the_same_for_a_seed_and_evaluation_for_all():
    prepared, task = data(), MaskedLM()
    first, again, other = (task.train_batches(prepared, SPEC, seed)[3] for seed in (0, 0, 1))
    assert torch.equal(first.input_ids, again.input_ids)
    assert not torch.equal(first.logits_at, other.logits_at)
    one, two = (task.eval_batches(prepared, "val", SPEC)[0] for _ in range(2))
    assert torch.equal(one.labels, two.labels)


def test_inside_documents_is_heard():
    prepared, inside = data(), replace(SPEC, packing="inside")
    for batches in (MaskedLM().train_batches(prepared, inside, 0), MaskedLM().eval_batches(prepared, "val", inside)):
        assert batches[0].document_ids.max() > 0
    assert MaskedLM().train_batches(prepared, SPEC, 0)[0].document_ids is None


def test_pseudo_perplexity_hides_each_token_alone():
    case = CASES["masked_lm"]
    net, prepared, task = case.network(torch.float32), data(), MaskedLM(pseudo_perplexity=20)
    ids, mask = prepared.parts["val"].ids[:20].astype(np.int64), 4
    total, count = 0.0, 0
    with torch.no_grad():
        for place in range(20):
            start = place - place % 12
            block = torch.from_numpy(ids[start : min(start + 12, 20)].copy())
            if block[place - start] < 5:
                continue
            truth, block[place - start] = int(block[place - start]), mask
            total -= net(block[None]).logits[0, place - start].log_softmax(-1)[truth].item()
            count += 1

    def score(batches):
        return evaluate(net, task, batches, "32-true")

    found = task.more_metrics(net, part(prepared, True, score))
    assert found == {"pseudo_perplexity": pytest.approx(math.exp(total / count), rel=1e-5)}
    assert task.more_metrics(net, part(prepared, False, score)) == {}
    assert MaskedLM().more_metrics(net, part(prepared, True, score)) == {}
    assert "pseudo_perplexity" in task.metric_names
    assert "pseudo_perplexity" not in task.monitors("documents")


@pytest.mark.parametrize(("tokenizer", "prompt", "seen"), GAPS.values(), ids=GAPS)
def test_a_gap_is_read_as_a_hidden_token_was_in_training(tokenizer, prompt, seen):
    specials = ["pad", "unk", "bos", "eos", "mask"]
    made_of = data(tokenizer={"name": tokenizer, "specials": specials})
    recipe = create("tokenizer", check_choice("tokenizer", {"name": tokenizer, "specials": specials}, "tokenizer"), {})
    asked = []

    class Asked(torch.nn.Module):
        def forward(self, ids, logits_at):
            asked.append(ids[0].tolist())
            return SimpleNamespace(logits=torch.zeros(int(logits_at.sum()), made_of.tokenizer.vocab_size))

    def encode(texts):
        return ragged(recipe.encode(made_of.tokenizer, texts), made_of.tokenizer.vocab_size)

    MaskedLM().answers(Asked(), Prompts([prompt], made_of, SPEC, encode))
    shown = [made_of.tokenizer.backend.id_to_token(i) for i in asked[0]]
    assert shown == seen


def test_floors_are_the_entropies_of_the_validation_text():
    prepared = data()
    assert MaskedLM().floors(prepared, SPEC) == ngram_entropies(np.asarray(prepared.parts["val"].ids))


def test_shares_beyond_all_are_refused():
    with pytest.raises(ConfigError) as error:
        MaskedLM(mask_share=0.95, random_share=0.1)
    assert str(error.value) == "task.mask_share: with random_share=0.1 they exceed 1, got 0.95"
    MaskedLM(mask_share=0.9, random_share=0.1)


def test_a_vocabulary_without_a_mask_is_refused():
    prepared = data(tokenizer="word")
    for call in (
        lambda: MaskedLM().train_batches(prepared, SPEC, 0),
        lambda: MaskedLM().eval_batches(prepared, "val", SPEC),
    ):
        with pytest.raises(ConfigError) as error:
            call()
        message = "data.tokenizer.specials: task=masked_lm needs the special token 'mask'; add it"
        assert str(error.value) == message


@pytest.mark.parametrize("name", ["masked_lm", "masked_lm_inside"])
def test_one_batch_is_learned_by_heart(name):
    case = CASES[name]
    net, task, batch = case.network(torch.float32).train(), case.make(), case.batch(range(3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(80):
        loss = task.loss(net, batch)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    with torch.no_grad():
        assert task.metrics(task.score(net.eval(), batch), 0)["accuracy"] == 1.0
