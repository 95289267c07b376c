"""T5: version 1.0 (ReLU, tied, with an output scale) and 1.1 (gated GELU, a head of its own).

Source: Raffel et al., 2020, arXiv:1910.10683; 1.1 as the authors released it.
Differs: Hugging Face drops out after the final norm of each stack, too; this matters in training only.
"""

from collections.abc import Iterator

from tfexp.interop.family import ACTIVATIONS, Family, Key, Row

GATED = {f"gated-{theirs}": {"name": "glu", "activation": ours} for theirs, ours in ACTIVATIONS.items()}
PLAIN = {theirs: {"name": "mlp", "activation": ours} for theirs, ours in ACTIVATIONS.items()}
# transformers takes `gated-gelu` for the tanh form, as in the released models of version 1.1.
FEEDFORWARDS = {"gated-gelu": {"name": "glu", "activation": "gelu_tanh"}} | {
    name: choice for name, choice in (GATED | PLAIN).items() if name != "gated-gelu"
}


def _layer(side: str, index: int, ours: str, theirs: str) -> Iterator[Row]:
    """One attention: its projections and the norm before it."""
    here, there = f"{side}.layers.{{i}}.", f"{side}.block.{{i}}.layer.{index}."
    for name, part in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
        yield Row(f"{there}{theirs}.{name}.weight", (f"{here}{ours}.{part}.weight",))
    yield Row(f"{there}layer_norm.weight", (f"{here}placement.norms.{ours}.weight",))


def _stack(side: str, position: str, feedforward: int) -> Iterator[Row]:
    here, there = f"{side}.layers.{{i}}.", f"{side}.block.{{i}}.layer.{feedforward}."
    yield from _layer(side, 0, "attention", "SelfAttention")
    # The first layer holds the biases of all.
    yield Row(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", (f"{position}.table",))
    inner, gate = f"{here}feedforward.inner.weight", f"{here}feedforward.gate.weight"
    yield Row(f"{there}DenseReluDense.wi.weight", (inner,), only=("without", gate))
    yield Row(f"{there}DenseReluDense.wi_0.weight", (gate,))
    yield Row(f"{there}DenseReluDense.wi_1.weight", (inner,), only=("with", gate))
    yield Row(f"{there}DenseReluDense.wo.weight", (f"{here}feedforward.outer.weight",))
    yield Row(f"{there}layer_norm.weight", (f"{here}placement.norms.feedforward.weight",))
    yield Row(f"{side}.final_layer_norm.weight", (f"{side}.ends.final_norm.weight",))


T5 = Family(
    name="t5",
    model="T5ForConditionalGeneration",
    auto="AutoModelForSeq2SeqLM",
    prefix="",
    node={
        "architecture": "encoder_decoder",
        "max_seq_len": 512,  # trained with; the biases go on
        "embedding": {"name": "token"},
        "position": {"name": "t5"},
        "attention": {"name": "softmax", "score": {"name": "dot"}},
        "norm": {"name": "rmsnorm"},
        "norm_placement": {"name": "pre"},
        "head": {"name": "lm"},
        "init": {"name": "xavier"},
        "encoder": {},
        "decoder": {"position": {"bidirectional": False}},
    },
    keys=(
        Key("d_model", "d_model"),
        Key("num_decoder_layers", "n_layers"),
        Key("num_layers", "encoder.n_layers"),
        Key("num_heads", "n_heads"),
        Key("d_kv", "head_dim"),
        Key("d_ff", "d_ff"),
        Key("n_positions", "max_seq_len"),
        Key("vocab_size", "vocab_size"),
        Key("tie_word_embeddings", "tie_embeddings"),
        Key("scale_decoder_outputs", "head.scale"),
        Key("feed_forward_proj", "feedforward", FEEDFORWARDS),
        Key("relative_attention_num_buckets", "position.n_buckets"),
        Key("relative_attention_max_distance", "position.max_distance"),
        Key("layer_norm_epsilon", "norm.eps"),
        *(Key("dropout_rate", f"dropout.{site}") for site in ("residual", "embedding", "attention", "hidden")),
    ),
    fixed={"is_decoder": False},
    ids={"decoder_start_token_id": "begin", "eos_token_id": "end", "pad_token_id": "pad"},
    rows=(
        Row("shared.weight", ("embedding.token.weight",)),
        Row("encoder.embed_tokens.weight", ("source_embedding.token.weight",)),
        Row("decoder.embed_tokens.weight", ("embedding.token.weight",)),
        *_stack("encoder", "source_position", 1),
        *_stack("decoder", "position", 2),
        *_layer("decoder", 1, "cross_attention", "EncDecAttention"),
        Row("lm_head.weight", ("head.project.weight",)),
    ),
    # In older files; no model reads it.
    computed=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
)
