"""Tasks, models and data that do not fit: refused in a line, before a run has a folder."""

import pytest

import tfexp
from tests import runs
from tests.training.task_runs import config, overrides
from tfexp.errors import ConfigError, DataError, IncompatibleError, TfexpError
from tfexp.training.run import plan_run

WATCHED = "trainer.monitor: not every evaluation of task="
POSITIONS = "position=learned has only 16 positions; raise it to"
# A tiny run and what is changed -> what is said. Of these nothing is read, so that nothing is made either.
BY_CONFIG = {
    "masked_lm_by_a_decoder": (
        "masked_lm",
        ["model=small"],
        IncompatibleError,
        "model.architecture: task=masked_lm trains encoder, got 'decoder'",
    ),
    "next_token_by_an_encoder": (
        "next_token_of_pairs",
        ["model.architecture=encoder"],
        IncompatibleError,
        "model.architecture: task=next_token trains decoder, got 'encoder'",
    ),
    "translation_by_a_decoder": (
        "translation",
        ["model.architecture=decoder"],
        IncompatibleError,
        "model.architecture: task=translation trains encoder_decoder, got 'decoder'",
    ),
    "classification_by_both": (
        "classification",
        ["model.architecture=encoder_decoder"],
        IncompatibleError,
        "model.architecture: task=classification trains encoder or decoder, got 'encoder_decoder'",
    ),
    "classes_from_a_language_models_head": (
        "classification",
        ["model/head=lm"],
        IncompatibleError,
        "model.head: task=classification needs 'sequence_logits', which 'lm' does not give; use classification",
    ),
    "tokens_from_a_classifiers_head": (
        "masked_lm",
        ["model/head=classification", "model.n_labels=2"],
        IncompatibleError,
        "model.head: task=masked_lm needs 'token_logits', which 'classification' does not give; use lm or mlm",
    ),
    "documents_for_a_classifier": (
        "masked_lm",
        ["task=classification"],
        ConfigError,
        "data: task=classification reads labelled, and data=text_files has documents",
    ),
    "classes_for_a_language_model": (
        "classification",
        ["task=next_token", "model=small"],
        ConfigError,
        "data: task=next_token reads documents or pairs or tagged, and data=listops has labelled",
    ),
    "tags_for_a_translator": (
        "translation",
        ["data=mqar", "data.vocabulary=12"],
        ConfigError,
        "data: task=translation reads pairs, and data=mqar has tagged",
    ),
    "perplexity_of_a_classifier": (
        "classification",
        ["trainer.monitor=perplexity"],
        ConfigError,
        f"{WATCHED}classification measures 'perplexity'; choices: accuracy, ",
    ),
    "bytes_of_pairs": (
        "next_token_of_pairs",
        ["trainer.monitor=bits_per_byte"],
        ConfigError,
        f"{WATCHED}next_token measures 'bits_per_byte'; choices: accuracy, ",
    ),
    "bleu_of_all_during_training": (
        "translation",
        ["trainer.monitor=bleu"],
        ConfigError,
        f"{WATCHED}translation measures 'bleu'; ",
    ),
    "bleu_of_none": (
        "translation",
        ["trainer.monitor=bleu_subset", "task.decode_examples=0"],
        ConfigError,
        f"{WATCHED}translation measures 'bleu_subset'; ",
    ),
    "metric_of_the_end": (
        "masked_lm",
        ["trainer.monitor=pseudo_perplexity", "task.pseudo_perplexity=5"],
        ConfigError,
        f"{WATCHED}masked_lm measures 'pseudo_perplexity'; did you mean 'perplexity'?",
    ),
    "metric_with_a_typo": (
        "classification",
        ["trainer.monitor=acuracy"],
        ConfigError,
        f"{WATCHED}classification measures 'acuracy'; did you mean 'accuracy'?",
    ),
    "longer_than_the_positions": (
        "next_token_of_pairs",
        ["task.extrapolate=[2]", "model/position=learned"],
        IncompatibleError,
        f"model.max_seq_len: task=next_token evaluates on 32 tokens, and {POSITIONS} 32",
    ),
    "longer_targets_than_positions": (
        "translation",
        ["task.max_target=20", "model/position=learned"],
        IncompatibleError,
        f"model.max_seq_len: task=translation evaluates on 20 tokens, and {POSITIONS} 20",
    ),
    "shares": (
        "masked_lm",
        ["task.random_share=0.5"],
        ConfigError,
        "task.mask_share: with random_share=0.5 they exceed 1, got 0.8",
    ),
}
# These are seen when the data are there: a cache is made, and no run.
BY_DATA = {
    "no_mask": (
        "masked_lm",
        ["data.tokenizer.specials=[pad,unk,bos,eos]"],
        ConfigError,
        "data.tokenizer.specials: task=masked_lm needs the special token 'mask'; add it",
    ),
    "no_end_between_documents": (
        "masked_lm",
        ["data.tokenizer.specials=[pad,unk,mask]"],
        ConfigError,
        "data.packing: 'inside' needs the special token 'eos' between documents",
    ),
    "no_begin": (
        "classification",
        ["data.tokenizer.specials=[pad,unk,eos]"],
        ConfigError,
        "data.tokenizer.specials: this task needs the special token 'bos'; add it",
    ),
    "no_end": (
        "translation",
        ["data.tokenizer.specials=[pad,unk,bos]"],
        ConfigError,
        "data.tokenizer.specials: this task needs the special token 'eos'; add it",
    ),
    "no_pad": (
        "next_token_of_tags",
        ["data.tokenizer.specials=[unk]"],
        ConfigError,
        "data.tokenizer.specials: this task needs the special token 'pad'; add it",
    ),
    "more_classes_than_there_are": (
        "classification",
        ["model.n_labels=12"],
        ConfigError,
        "model.n_labels: 12 is larger than the data's 10; use null for the data's",
    ),
    "fewer_classes_than_there_are": (
        "classification",
        ["model.n_labels=9"],
        ConfigError,
        "model.n_labels: 9 is smaller than the data's 10; use null for the data's",
    ),
    "h25_all_too_long": (
        "classification",
        ["data.seq_len=5", "data.overlong=drop"],
        DataError,
        "data.seq_len: none of the 40 training examples fits 5 tokens (the shortest has ",
    ),
    "nothing_to_predict": (
        "next_token_of_tags",
        ["data.seq_len=4"],
        DataError,
        "data.seq_len: in none of 40 examples is one of the first 4 tokens to be predicted; raise it to more than 4",
    ),
    "no_room": (
        "classification",
        ["data.seq_len=2"],
        DataError,
        "data.seq_len: an example of this task needs at least 3 tokens, got 2",
    ),
}


def said_of(given: list[str]) -> TfexpError:
    with pytest.raises(TfexpError) as error:
        plan_run(tfexp.compose(*given))
    assert len(str(error.value).splitlines()) == 1
    return error.value


@pytest.mark.parametrize(("name", "changes", "kind", "message"), BY_CONFIG.values(), ids=BY_CONFIG)
def test_what_cannot_fit_is_refused_before_anything_is_read(tmp_path, name, changes, kind, message):
    given = [o for o in overrides(name, tmp_path) if not any(same_choice(o, change) for change in changes)]
    error = said_of([*given, *changes])
    assert str(error).startswith(message)
    assert type(error) is kind
    assert not (tmp_path / "outputs").exists()


def same_choice(one: str, other: str) -> bool:
    """Whether two overrides choose for one group; Hydra takes each only once, and keys of a left choice not at all."""
    key, wanted = one.partition("=")[0], other.partition("=")[0]
    return key == wanted or (
        wanted == "data" and key.startswith("data.") and key not in ("data.batch_size", "data.train")
    )


@pytest.mark.parametrize(("name", "changes", "kind", "message"), BY_DATA.values(), ids=BY_DATA)
def test_what_the_data_cannot_give_is_refused_before_a_run_has_a_folder(tmp_path, name, changes, kind, message):
    error = said_of(overrides(name, tmp_path, *changes))
    assert str(error).startswith(message)
    assert type(error) is kind
    assert not (tmp_path / "outputs" / "runs").exists()


def test_h25_a_line_shorter_than_a_block_ends_in_one_line(tmp_path):
    (tmp_path / "short.txt").write_text("only five tokens are here\n", encoding="utf-8")
    given = [o for o in runs.overrides(tmp_path) if not o.startswith(("data.train", "data/tokenizer", "model.max_seq"))]
    short = ["data/tokenizer=word", f"data.train={tmp_path}/short.txt", f"data.val={tmp_path}/short.txt"]
    for task in ("next_token", "masked_lm"):
        error = said_of([*given, *short, f"task={task}", "model.max_seq_len=16"])
        assert str(error) == "data.seq_len: a block of 16 needs 17 tokens, but the training part has 6"
    assert not (tmp_path / "outputs" / "runs").exists()


def test_the_part_that_is_refused_first_is_the_same_in_every_process(tmp_path):
    bad = tmp_path / "empty.txt"
    bad.write_text("x", encoding="utf-8")
    config_of = runs.config(tmp_path, f"data.val={bad}", f"data.test={bad}", "data.tokenizer.specials=[unk]")
    with pytest.raises(DataError, match=r"^data\.val: an evaluation part needs at least 2 tokens, got 1$"):
        plan_run(config_of)


def test_what_fits_is_planned(tmp_path):
    assert config("next_token_of_pairs", tmp_path, "task.extrapolate=[2]", "model/position=rope")
    fitting = config("next_token_of_pairs", tmp_path, "task.extrapolate=[1]", "model/position=learned")
    assert plan_run(fitting).record.folder.parent == tmp_path / "outputs" / "runs"
