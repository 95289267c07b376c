"""Llama 2 and 3, and what kept their form.

Source: Touvron et al., 2023, arXiv:2307.09288; Grattafiori et al., 2024, arXiv:2407.21783.
"""

from tfexp.interop.family import ACTIVATIONS, Family, Key, Row

HERE, THERE = "decoder.layers.{i}.", "model.layers.{i}."
PROJECTIONS = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.o_proj": "attention.output",
    "mlp.gate_proj": "feedforward.gate",
    "mlp.up_proj": "feedforward.inner",
    "mlp.down_proj": "feedforward.outer",
}

LLAMA = Family(
    name="llama",
    model="LlamaForCausalLM",
    auto="AutoModelForCausalLM",
    prefix="model.",
    node={
        "architecture": "decoder",
        "embedding": {"name": "token"},
        "position": {"name": "rope", "layout": "half_split"},
        "attention": {"name": "softmax"},
        "norm": {"name": "rmsnorm"},
        "norm_placement": {"name": "pre"},
        "feedforward": {"name": "glu"},
        "head": {"name": "lm"},
    },
    keys=(
        Key("hidden_size", "d_model"),
        Key("num_hidden_layers", "n_layers"),
        Key("num_attention_heads", "n_heads"),
        Key("num_key_value_heads", "n_kv_heads"),
        Key("head_dim", "head_dim"),
        Key("intermediate_size", "d_ff"),
        Key("max_position_embeddings", "max_seq_len"),
        Key("vocab_size", "vocab_size"),
        Key("tie_word_embeddings", "tie_embeddings"),
        Key("rope_parameters.rope_theta", "position.base"),
        Key("attention_bias", "attention.bias"),
        Key("mlp_bias", "feedforward.bias"),
        Key("hidden_act", "feedforward.activation", ACTIVATIONS),
        Key("rms_norm_eps", "norm.eps"),
        Key("attention_dropout", "dropout.attention"),
    ),
    fixed={"rope_parameters.rope_type": "default"},
    ids={"bos_token_id": "begin", "eos_token_id": "end", "pad_token_id": "pad"},
    rows=(
        Row("model.embed_tokens.weight", ("embedding.token.weight",)),
        *(
            Row(f"{THERE}{theirs}.{kind}", (f"{HERE}{ours}.{kind}",))
            for theirs, ours in PROJECTIONS.items()
            for kind in ("weight", "bias")
        ),
        Row(f"{THERE}input_layernorm.weight", (f"{HERE}placement.norms.attention.weight",)),
        Row(f"{THERE}post_attention_layernorm.weight", (f"{HERE}placement.norms.feedforward.weight",)),
        Row("model.norm.weight", ("decoder.ends.final_norm.weight",)),
        Row("lm_head.weight", ("head.project.weight",)),
    ),
    computed=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),  # in older files
)
