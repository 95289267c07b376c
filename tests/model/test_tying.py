"""Which tables of tokens a model has, who shares them, and where their gradients come from."""

import pytest
import torch

from tests.tiny import D, V, ids, model
from tfexp.model.count import count_parameters

# tie_embeddings, share_embeddings -> the tables of an encoder-decoder
TYING = {
    "three_way": (True, True, ["embedding.token.weight"]),
    "target_and_head": (True, False, ["embedding.token.weight", "source_embedding.token.weight"]),
    "source_and_target": (False, True, ["embedding.token.weight", "head.project.weight"]),
    "none": (False, False, ["embedding.token.weight", "source_embedding.token.weight", "head.project.weight"]),
}
ROWS = pytest.mark.parametrize(("tie", "share", "tables"), TYING.values(), ids=TYING)
# Three words that only the source says, and three that only the target says.
SOURCE, TARGET = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6]])


def pair(tie: bool, share: bool, seed: int = 0, **changes):
    return model(seed, architecture="encoder_decoder", tie_embeddings=tie, share_embeddings=share, **changes)


@ROWS
def test_the_tables_that_exist(tie, share, tables):
    made = pair(tie, share)
    found = [name for name, _ in made.named_parameters() if "token" in name or name.startswith("head")]
    assert sorted(found) == sorted(tables)
    assert (made.head.project.weight is made.embedding.table()) == tie
    assert (made.source_embedding.table() is made.embedding.table()) == share
    fewest = count_parameters(pair(True, True))
    assert count_parameters(made).total == fewest.total + (len(tables) - 1) * V * D


@ROWS
def test_gradients_flow_from_every_use_of_a_table(tie, share, tables):
    made = pair(tie, share)
    made(SOURCE, decoder_input_ids=TARGET).logits[..., 7].sum().backward()  # the head alone uses row 7
    rows = {name: p.grad.abs().sum(-1) > 0 for name, p in made.named_parameters() if name in tables}
    uses = {"source_embedding": {1, 2, 3}, "embedding": {4, 5, 6}, "head": {7}}
    if share:
        uses["embedding"] |= uses.pop("source_embedding")
    if tie:
        uses["embedding"] |= uses.pop("head")
    found = {name.split(".")[0]: {*row.nonzero().flatten().tolist()} for name, row in rows.items()}
    assert found == uses


@ROWS
def test_shared_tables_are_one_after_a_step_saving_and_loading(tie, share, tables, tmp_path):
    trained = pair(tie, share)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    trained(SOURCE, decoder_input_ids=TARGET).logits.square().mean().backward()
    optimizer.step()
    torch.save(trained.state_dict(), tmp_path / "state.pt")
    loaded = pair(tie, share, seed=9)
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True), strict=True)
    expected = trained(SOURCE, decoder_input_ids=TARGET).logits
    assert torch.equal(loaded(SOURCE, decoder_input_ids=TARGET).logits, expected)
    assert count_parameters(loaded) == count_parameters(trained)


@ROWS
def test_one_seed_gives_a_table_one_value_whoever_shares_it(tie, share, tables):
    untied = dict(pair(False, False, seed=3).named_parameters())
    made = dict(pair(tie, share, seed=3).named_parameters())
    assert made.keys() <= untied.keys()
    assert [name for name in made if not torch.equal(made[name], untied[name])] == []
    other = dict(pair(tie, share, seed=4).named_parameters())
    assert not torch.equal(made["embedding.token.weight"], other["embedding.token.weight"])


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_an_organisation_shares_what_it_has_in_common_with_another(architecture):
    one, both = (dict(model(3, architecture=a).named_parameters()) for a in (architecture, "encoder_decoder"))
    common = [name for name in one if name in both]
    assert len(common) == len(one)
    assert [name for name in common if not torch.equal(one[name], both[name])] == []


def test_the_spread_of_a_residual_projection_follows_the_depth_of_its_own_stack():
    # Of 4,096 draws the standard error of the deviation is 1.1 %.
    made = pair(True, True, d_model=64, encoder={"n_layers": 1}, decoder={"n_layers": 4}, init={"name": "gpt2"})
    for stack, depth in ((made.encoder, 1), (made.decoder, 4)):
        spread = stack.layers[0].attention.output.weight.std().item()
        assert spread == pytest.approx(0.02 / (2 * depth) ** 0.5, rel=0.05)


@pytest.mark.parametrize("architecture", ["encoder", "decoder", "encoder_decoder"])
def test_a_head_that_scores_no_tokens_is_not_tied(architecture):
    made = model(architecture=architecture, head="classification", n_labels=3)
    assert made.spec.tie_embeddings is False
    assert [tuple(p.shape) for p in made.head.parameters()] == [(3, D), (3,)]


@pytest.mark.parametrize("head", ["lm", "mlm"])
def test_an_encoder_ties_its_head_to_its_table(head):
    made = model(architecture="encoder", head=head)
    assert made.head.project.weight is made.embedding.table()
    untied = model(architecture="encoder", head=head, tie_embeddings=False)
    assert untied.head.project.weight is not untied.embedding.table()
    assert made(ids()).logits.shape == (2, 4, V)
