"""Build, train, load: the public face in Python."""

from pathlib import Path
from typing import Literal

import torch
from omegaconf import DictConfig

from tfexp.config.freeze import freeze, to_plain
from tfexp.data.tokenization import Tokenizer
from tfexp.errors import RunError
from tfexp.model.build import build_model
from tfexp.model.mode import Precision
from tfexp.model.spec import ModelSpec
from tfexp.model.transformer import Transformer
from tfexp.training.record import Record, find_record, read_checkpoint
from tfexp.training.run import run


def build(config: DictConfig, seed: int | None = None) -> Transformer:
    """The model that a frozen config describes, freshly initialised.

    Args:
        config: From `tfexp.compose`.
        seed: Of the initial parameters; None = the config's.
    """
    return build_model(ModelSpec.from_config(to_plain(config)["model"]), config.seed if seed is None else seed)


def train(config: DictConfig) -> Path:
    """Train a frozen config, or find that it was trained; returns the run's folder."""
    return run(config).folder


def load(reference: str | Path, weights: Literal["best", "last"] = "best", outputs: str = "outputs") -> Transformer:
    """The trained model of a run, in evaluation mode, with its tokenizer as `model.tokenizer`.

    Args:
        reference: A run's folder, the start of its hash, or `last`.
        weights: Of the best evaluation, or of the last step.
        outputs: Where to look for runs.
    """
    record = find_record(str(reference), Path(outputs))
    return load_record(record, weights)


def load_record(
    record: Record, weights: Literal["best", "last"] = "best", precision: Precision | None = None
) -> Transformer:
    """The trained model of a record.

    Args:
        record: The run.
        weights: Of the best evaluation, or of the last step.
        precision: That it is to be generated with; None = the run's own.
    """
    config = freeze(record.config())
    model = build(config)
    model.load_state_dict(_weights(record, weights))
    model.tokenizer = _tokenizer(record, model.spec.vocab_size or 0)
    model.precision = config.trainer.precision if precision is None else precision
    return model.eval()


def _tokenizer(record: Record, vocab_size: int) -> Tokenizer:
    """The run's own tokenizer; one of another run would turn its predictions into other words."""
    tokenizer = Tokenizer.from_file(record.tokenizer_file)
    trained_with = record.summary()["tokenizer"]["fingerprint"] if record.summary_file.is_file() else None
    if tokenizer.vocab_size > vocab_size or trained_with not in (None, tokenizer.fingerprint()):
        raise RunError(
            f"{record.tokenizer_file} is not the vocabulary that this run was trained with "
            f"({tokenizer.vocab_size} tokens here, {vocab_size} in the model)"
        )
    return tokenizer


def _weights(record: Record, weights: Literal["best", "last"]) -> dict[str, torch.Tensor]:
    path = record.best_checkpoint if weights == "best" else record.last_checkpoint
    if not path.is_file():
        raise RunError(
            f"{record.folder} has no {weights} weights: its state is '{record.state}'; run its command again"
        )
    checkpoint = read_checkpoint(path)
    if weights == "best":
        return checkpoint["model"]
    prefix = "model."
    return {k.removeprefix(prefix): v for k, v in checkpoint["state_dict"].items() if k.startswith(prefix)}
