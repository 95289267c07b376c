"""GPT-2 and what kept its form, such as DistilGPT2.

Source: Radford et al., 2019, "Language Models are Unsupervised Multitask Learners".
"""

from collections.abc import Iterator

from tfexp.interop.family import ACTIVATIONS, Family, Form, Key, Row

HERE, THERE = "decoder.layers.{i}.", "transformer.h.{i}."


def _block(kind: str, form: Form) -> Iterator[Row]:
    """Linear maps are stored as (in, out); query, key and value are one map."""
    yield Row(
        f"{THERE}attn.c_attn.{kind}",
        tuple(f"{HERE}attention.{part}.{kind}" for part in ("query", "key", "value")),
        form,
    )
    yield Row(f"{THERE}attn.c_proj.{kind}", (f"{HERE}attention.output.{kind}",), form)
    yield Row(f"{THERE}mlp.c_fc.{kind}", (f"{HERE}feedforward.inner.{kind}",), form)
    yield Row(f"{THERE}mlp.c_proj.{kind}", (f"{HERE}feedforward.outer.{kind}",), form)
    yield Row(f"{THERE}ln_1.{kind}", (f"{HERE}placement.norms.attention.{kind}",))
    yield Row(f"{THERE}ln_2.{kind}", (f"{HERE}placement.norms.feedforward.{kind}",))


GPT2 = Family(
    name="gpt2",
    model="GPT2LMHeadModel",
    auto="AutoModelForCausalLM",
    prefix="transformer.",
    node={
        "architecture": "decoder",
        "embedding": {"name": "token"},
        "position": {"name": "learned"},
        "attention": {"name": "softmax", "bias": True},
        "norm": {"name": "layernorm"},
        "norm_placement": {"name": "pre"},
        "feedforward": {"name": "mlp", "bias": True},
        "head": {"name": "lm"},
    },
    keys=(
        Key("n_embd", "d_model"),
        Key("n_layer", "n_layers"),
        Key("n_head", "n_heads"),
        Key("n_inner", "d_ff"),
        Key("n_positions", "max_seq_len"),
        Key("vocab_size", "vocab_size"),
        Key("tie_word_embeddings", "tie_embeddings"),
        Key("activation_function", "feedforward.activation", ACTIVATIONS),
        Key("layer_norm_epsilon", "norm.eps"),
        Key("scale_attn_weights", "attention.score.name", {True: "scaled_dot", False: "dot"}),
        Key("embd_pdrop", "dropout.embedding"),
        Key("attn_pdrop", "dropout.attention"),
        Key("resid_pdrop", "dropout.residual"),
    ),
    fixed={"scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    ids={"bos_token_id": "begin", "eos_token_id": "end", "pad_token_id": "pad"},
    rows=(
        Row("transformer.wte.weight", ("embedding.token.weight",)),
        Row("transformer.wpe.weight", ("position.table.weight",)),
        *_block("weight", "transposed"),
        *_block("bias", "same"),
        Row("transformer.ln_f.weight", ("decoder.ends.final_norm.weight",)),
        Row("transformer.ln_f.bias", ("decoder.ends.final_norm.bias",)),
        Row("lm_head.weight", ("head.project.weight",)),
    ),
    computed=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),  # the causal mask, in older files
)
