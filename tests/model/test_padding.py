"""What is at a padded place never reaches a real one, forward or backward, whatever it is; gaps are no neighbours."""

from itertools import product

import pytest
import torch

from tests.model import checks
from tests.tiny import close, ids, model, normal
from tfexp.errors import DataError
from tfexp.model.decoding import DecodingState, step
from tfexp.registry import create, names, resolve

POISONS = [1e30, torch.inf, torch.nan]
PAD = 0
MASK = torch.tensor([[0, 1, 1, 1, 0], [1, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]).bool()
REAL = MASK.any(dim=1)  # rows with something to score
EMBEDDINGS = [{"name": "token"}, {"name": "ngram", "max_n": 3, "buckets": 11}]
MODELS = [
    pytest.param(attention, position, architecture, id=f"{attention}-{position}-{architecture}")
    for attention, position, architecture in product(names("attention"), names("position"), ("decoder", "encoder"))
    if resolve("attention", attention).gives
    >= resolve("position", position).needs | {"causal" if architecture == "decoder" else "bidirectional"}
]


def poisoned(net, value: float):
    """The model with this value in the vector of the pad token."""
    for embedding in {net.embedding, net.source_embedding or net.embedding}:
        with torch.no_grad():
            embedding.table()[PAD] = value
    return net


def gradients(net, **inputs) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits of real positions, and the gradients of their sum of squares."""
    out = net(**inputs)
    seen = inputs.get("decoder_attention_mask", inputs["attention_mask"])
    logits = out.logits[seen]
    logits.square().sum().backward()
    return logits, {name: p.grad for name, p in net.named_parameters() if p.grad is not None}


def check_poison(inputs, value: float, **parts) -> None:
    # Untied: a head that shares the vector of <pad> scores it, as any other token.
    # In float32, whose squares of 1e30 are infinite.
    parts |= {"tie_embeddings": False, "n_heads": 4, "head_dim": 4, "max_seq_len": 8, "dtype": torch.float32}
    logits, grads = gradients(model(**parts), **inputs)
    found, others = gradients(poisoned(model(**parts), value), **inputs)
    close(found, logits, atol=0.0)
    for name, grad in grads.items():
        close(others[name], grad, atol=0.0)
        if name.endswith("embedding.token.weight"):
            assert (others[name][PAD] == 0).all()


def padded() -> torch.Tensor:
    return ids(4, 5).masked_fill(~MASK, PAD)


@pytest.mark.parametrize(("attention", "position", "architecture"), MODELS)
def test_a_huge_vector_at_a_padded_place_reaches_nothing(attention, position, architecture):
    inputs = {"input_ids": padded(), "attention_mask": MASK}
    check_poison(inputs, 1e30, attention=attention, position=position, architecture=architecture)


@pytest.mark.parametrize("value", POISONS)
@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=lambda e: e["name"])
@pytest.mark.parametrize("placement", names("norm_placement"))
def test_nor_does_any_other_value(placement, embedding, value):
    inputs = {"input_ids": padded(), "attention_mask": MASK}
    check_poison(inputs, value, norm_placement=placement, embedding=embedding, position="learned")


@pytest.mark.parametrize("value", POISONS)
@pytest.mark.parametrize("position", names("position"))
def test_nor_in_an_encoder_decoder(position, value):
    inputs = {
        **{"input_ids": padded(), "attention_mask": MASK},
        **{"decoder_input_ids": padded().flip(0), "decoder_attention_mask": MASK.flip(0)},
    }
    check_poison(inputs, value, position=position, architecture="encoder_decoder")


@pytest.mark.parametrize("value", POISONS)
@pytest.mark.parametrize("pooling", names("pooling"))
def test_a_pooling_reads_no_padded_state(pooling, value):
    pool = create("pooling", {"name": pooling}, {"d_model": 8}).double()
    hidden = normal(4, 5, 8)
    grads = []
    for states in (hidden, hidden.masked_fill(~MASK.unsqueeze(-1), value)):
        states = states.clone().requires_grad_()
        out = pool(states, MASK)
        out.square().sum().backward()
        grads.append((out.detach(), states.grad))
    close(grads[1][0], grads[0][0], atol=0.0)
    close(grads[1][1], grads[0][1], atol=0.0)
    assert (grads[1][1][~MASK] == 0).all()


def test_a_model_that_looks_the_padding_up_is_seen(monkeypatch):
    monkeypatch.setattr("tfexp.model.transformer.token_vectors", checks.looked_up)
    with pytest.raises(AssertionError):
        check_poison({"input_ids": padded(), "attention_mask": MASK}, 1e30, position="rope")


@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=lambda e: e["name"])
def test_a_gap_in_a_row_is_as_if_it_were_not_there(embedding):
    net = model(embedding=embedding, position="learned")
    tokens = ids(1, 3)
    gapped = torch.cat((tokens[:, :2], torch.tensor([[9, 9]]), tokens[:, 2:]), dim=1)
    mask = torch.tensor([[1, 1, 0, 0, 1]])
    expected = net(tokens).logits
    close(net(gapped, mask).logits[mask.bool()], expected[0], atol=1e-11)
    state = DecodingState(net)
    parts = [step(net, gapped[:, k : k + 1], state, mask[:, k : k + 1]).logits for k in range(5)]
    close(torch.cat(parts, dim=1)[mask.bool()], expected[0], atol=1e-11)


def test_an_n_gram_across_a_gap_is_seen_where_masked_ids_count(monkeypatch):
    monkeypatch.setattr("tfexp.model.transformer.token_vectors", checks.looked_up)
    net = model(embedding=EMBEDDINGS[1])
    mask = torch.tensor([[1, 1, 0, 1]])
    with pytest.raises(AssertionError):
        close(net(ids(1, 4), mask).logits[0, 3], net(ids(1, 4)[:, [0, 1, 3]]).logits[0, 2], atol=1e-11)


# --- shapes that do not fit ---------------------------------------------------------------------

WRONG = {
    "length": ({"attention_mask": torch.ones(2, 3)}, "attention_mask: has shape (2, 3), the tokens have (2, 4)"),
    "rows": ({"attention_mask": torch.ones(1, 4)}, "attention_mask: has shape (1, 4), the tokens have (2, 4)"),
    "vector": ({"position_ids": torch.arange(4)}, "position_ids: has shape (4,), the tokens have (2, 4)"),
    "documents": ({"document_ids": torch.zeros(2, 5)}, "document_ids: has shape (2, 5), the tokens have (2, 4)"),
    "scored": ({"logits_at": torch.ones(2)}, "logits_at: has shape (2,), the tokens have (2, 4)"),
}
WRONG_SIDES = {
    "source": ({"attention_mask": torch.ones(2, 3)}, "attention_mask: has shape (2, 3), the tokens have (2, 4)"),
    "target": (
        {"decoder_attention_mask": torch.ones(2, 4)},
        "decoder_attention_mask: has shape (2, 4), the tokens have (2, 3)",
    ),
}


@pytest.mark.parametrize(("inputs", "message"), WRONG.values(), ids=WRONG)
def test_what_does_not_say_one_thing_for_each_token_is_refused(inputs, message):
    with pytest.raises(DataError) as error:
        model(position="learned")(ids(), **inputs)
    assert str(error.value) == message


@pytest.mark.parametrize(("inputs", "message"), WRONG_SIDES.values(), ids=WRONG_SIDES)
def test_so_it_is_on_two_sides(inputs, message):
    with pytest.raises(DataError) as error:
        model(architecture="encoder_decoder")(ids(), decoder_input_ids=ids(2, 3), **inputs)
    assert str(error.value) == message


def test_an_empty_batch_has_no_positions_to_refuse():
    empty = torch.zeros(0, 4, dtype=torch.int64)
    assert model(position="learned")(empty, position_ids=empty).logits.shape == (0, 4, 16)


# --- documents ----------------------------------------------------------------------------------


@pytest.mark.parametrize("position", names("position"))
def test_positions_start_anew_in_each_document(position):
    net = model(position=position)
    first, second = ids(1, 3), ids(1, 4, seed=5)
    packed = torch.cat((first, second), dim=1)
    logits = net(packed, document_ids=torch.tensor([[4, 4, 4, 1, 1, 1, 1]])).logits
    close(logits, torch.cat((net(first).logits, net(second).logits), dim=1), atol=1e-11)


def test_positions_of_documents_do_not_count_padding():
    net = model(position="learned")
    tokens = ids(1, 5)
    mask, documents = torch.tensor([[0, 1, 1, 0, 1, 1, 0]]), torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    padded_tokens = torch.zeros(1, 7, dtype=torch.int64)
    padded_tokens[mask.bool()] = tokens[0, :4]
    logits = net(padded_tokens, mask, document_ids=documents).logits[mask.bool()]
    close(logits[:2], net(tokens[:, :2]).logits[0], atol=1e-11)
    close(logits[2:], net(tokens[:, 2:4]).logits[0], atol=1e-11)
