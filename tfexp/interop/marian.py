"""Marian as in the OPUS-MT models.

Source: Junczys-Dowmunt et al., 2018, arXiv:1804.00344; Tiedemann and Thottingal, 2020 (OPUS-MT).
"""

from collections.abc import Iterator

from tfexp.interop.family import ACTIVATIONS, Family, Key, Row

SELF, CROSS = ("self_attn", "attention"), ("encoder_attn", "cross_attention")


def _stack(side: str, attentions: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    here, there = f"{side}.layers.{{i}}.", f"model.{side}.layers.{{i}}."
    for kind in ("weight", "bias"):
        for theirs, ours in attentions:
            for name, part in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "output")):
                yield Row(f"{there}{theirs}.{name}.{kind}", (f"{here}{ours}.{part}.{kind}",))
            yield Row(f"{there}{theirs}_layer_norm.{kind}", (f"{here}placement.norms.{ours}.{kind}",))
        yield Row(f"{there}fc1.{kind}", (f"{here}feedforward.inner.{kind}",))
        yield Row(f"{there}fc2.{kind}", (f"{here}feedforward.outer.{kind}",))
        yield Row(f"{there}final_layer_norm.{kind}", (f"{here}placement.norms.feedforward.{kind}",))


MARIAN = Family(
    name="marian",
    model="MarianMTModel",
    auto="AutoModelForSeq2SeqLM",
    prefix="model.",
    node={
        "architecture": "encoder_decoder",
        "embedding": {"name": "token"},
        "position": {"name": "sinusoidal", "layout": "halves"},
        "attention": {"name": "softmax", "bias": True},
        "norm": {"name": "layernorm", "eps": 1e-5},
        "norm_placement": {"name": "post"},
        "feedforward": {"name": "mlp", "bias": True},
        "head": {"name": "lm", "bias": True},
        "init": {"name": "xavier"},
        "encoder": {},
    },
    keys=(
        Key("d_model", "d_model"),
        Key("decoder_layers", "n_layers"),
        Key("encoder_layers", "encoder.n_layers"),
        Key("decoder_attention_heads", "n_heads"),
        Key("encoder_attention_heads", "encoder.n_heads"),
        Key("decoder_ffn_dim", "d_ff"),
        Key("encoder_ffn_dim", "encoder.d_ff"),
        Key("max_position_embeddings", "max_seq_len"),
        Key("vocab_size", "vocab_size"),
        Key("decoder_vocab_size", "vocab_size"),
        Key("share_encoder_decoder_embeddings", "share_embeddings"),
        Key("tie_word_embeddings", "tie_embeddings"),
        Key("scale_embedding", "embedding.scale"),
        Key("activation_function", "feedforward.activation", ACTIVATIONS),
        Key("dropout", "dropout.residual"),
        Key("dropout", "dropout.embedding"),
        Key("attention_dropout", "dropout.attention"),
        Key("activation_dropout", "dropout.hidden"),
    ),
    fixed={"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "is_decoder": False},
    ids={
        "decoder_start_token_id": "begin",
        "eos_token_id": "end",
        "forced_eos_token_id": "end",
        "pad_token_id": "pad",
    },
    rows=(
        Row("model.shared.weight", ("embedding.token.weight",)),
        Row("model.encoder.embed_tokens.weight", ("source_embedding.token.weight",)),
        Row("model.decoder.embed_tokens.weight", ("embedding.token.weight",)),
        *_stack("encoder", (SELF,)),
        *_stack("decoder", (SELF, CROSS)),
        Row("lm_head.weight", ("head.project.weight",)),
        Row("final_logits_bias", ("head.project.bias",), "row", zero_if_missing=True),
    ),
    computed=(r"model\.(en|de)coder\.embed_positions\.weight",),  # sines and cosines
    required_ids=("begin", "end", "pad"),
    never_pads=True,
)
