"""The places that a component can fill, what a builder can inject there, and the traits that it may state.

Standard library only. A new kind of component is a row here and a folder.
"""

from dataclasses import dataclass

GEOMETRY = frozenset(
    {
        *("d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "n_layers", "layer_index", "max_seq_len"),
        *("vocab_size", "n_labels", "attention_dropout", "hidden_dropout", "sublayers", "norm", "residual"),
    }
)
"""What the model builder can inject. `norm` and `residual` are factories, `sublayers` names."""


@dataclass(frozen=True)
class Slot:
    """A place that a component can fill.

    Args:
        purpose: One line for `tfexp list`.
        package: The package whose modules register tfexp's own components.
        group: The Hydra config group, such as `model/position`.
        injects: Names that the builder offers to positional parameters.
        common: `module:Class` of a dataclass with keys that every choice of the slot also takes.
    """

    purpose: str
    package: str
    group: str
    injects: frozenset[str] = frozenset()
    common: str | None = None


def _model_slot(name: str, purpose: str) -> Slot:
    return Slot(purpose, f"tfexp.components.{name}", f"model/{name}", GEOMETRY)


SLOTS: dict[str, Slot] = {
    "embedding": _model_slot("embedding", "turns token ids into vectors"),
    "position": _model_slot("position", "tells the model where a token stands"),
    "attention": _model_slot("attention", "mixes information between positions"),
    "score": Slot(
        "how well a query fits a key, inside softmax attention",
        "tfexp.components.score",
        "model/attention/score",
        GEOMETRY,
    ),
    "norm": _model_slot("norm", "keeps the scale of activations"),
    "norm_placement": _model_slot("norm_placement", "where norms and residuals sit around a sublayer"),
    "residual": _model_slot("residual", "joins a sublayer's output to its input"),
    "feedforward": _model_slot("feedforward", "transforms each position on its own"),
    "pooling": _model_slot("pooling", "turns the states of a sequence into one vector"),
    "head": _model_slot("head", "turns hidden states into logits"),
    "init": _model_slot("init", "draws the initial parameters"),
    "task": Slot("what is trained and how it is scored", "tfexp.tasks", "task"),
    "data": Slot("where the text comes from", "tfexp.data.source", "data", common="tfexp.data.spec:DataSpec"),
    "tokenizer": Slot("turns text into ids", "tfexp.data.tokenizer", "data/tokenizer"),
    "optim": Slot("updates the parameters", "tfexp.training.optim", "optim", frozenset({"model"})),
    "schedule": Slot(
        "the learning rate over time", "tfexp.training.schedule", "schedule", frozenset({"max_steps", "d_model"})
    ),
    "logger": Slot("mirrors the record to a dashboard", "tfexp.training.logger", "logger", frozenset({"run"})),
    "generation": Slot(
        "chooses the next token",
        "tfexp.generation.strategy",
        "generation",
        common="tfexp.generation.spec:GenerationSpec",
    ),
}

TRAITS: dict[str, str] = {
    "causal": "can keep a position from seeing later ones",
    "bidirectional": "can let a position see earlier and later ones",
    "cross": "can take keys and values from another sequence",
    "cacheable": "can decode token by token from a state",
    "query_key": "has queries and keys that a position may rotate",
    "score_bias": "accepts a bias added to its scores",
    "padding": "leaves padded positions out",
    "absolute": "marks the place in the sequence",
    "relative": "marks the distance between two places",
    "extrapolates": "is defined beyond the trained length",
    "exact": "computes softmax attention exactly",
    "token_logits": "scores every position",
    "sequence_logits": "scores a whole sequence",
}
"""What a component can need of, or give to, the rest of the model."""
