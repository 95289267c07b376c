"""Tiny models of transformers with random weights, made from their configs: nothing is downloaded."""

import math
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

from tests.tiny import close
from tfexp.interop.convert import from_hf
from tfexp.model.build import build_model
from tfexp.model.spec import ModelSpec
from tfexp.model.transformer import Transformer

V, PAD, LONGEST = 20, 0, 16
GPT2 = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": LONGEST, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {
    "hidden_size": 16,  # heads of 4: with fewer, all layouts of rotations are one
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": LONGEST,
    "pad_token_id": PAD,
}
T5 = {"d_model": 8, "d_kv": 3, "d_ff": 12, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": PAD}
T5_1_1 = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
MARIAN = {
    "d_model": 8,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12,
    "max_position_embeddings": LONGEST,
    "pad_token_id": PAD,
    "decoder_start_token_id": PAD,
    "eos_token_id": 3,
    "forced_eos_token_id": 3,
}
CLASSES = {
    "gpt2": hf.GPT2LMHeadModel,
    "llama": hf.LlamaForCausalLM,
    "t5": hf.T5ForConditionalGeneration,
    "marian": hf.MarianMTModel,
}
# Name of the row -> family and options.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", GPT2),
    "gpt2-untied": ("gpt2", {**GPT2, "tie_word_embeddings": False}),
    "gpt2-relu-n_inner": ("gpt2", {**GPT2, "activation_function": "relu", "n_inner": 12}),
    "gpt2-gelu-eps": ("gpt2", {**GPT2, "activation_function": "gelu", "layer_norm_epsilon": 1e-2}),
    "gpt2-silu": ("gpt2", {**GPT2, "activation_function": "silu"}),
    "gpt2-no_scale": ("gpt2", {**GPT2, "scale_attn_weights": False}),
    "llama": ("llama", LLAMA),
    "llama-tied": ("llama", {**LLAMA, "tie_word_embeddings": True}),
    "llama-grouped": ("llama", {**LLAMA, "num_key_value_heads": 2}),
    "llama-one_kv_head-head_dim": ("llama", {**LLAMA, "num_key_value_heads": 1, "head_dim": 6}),
    "llama-biases": ("llama", {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "llama-gelu-eps": ("llama", {**LLAMA, "hidden_act": "gelu", "rms_norm_eps": 1e-2}),
    "llama-theta": ("llama", {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    "t5": ("t5", T5),
    "t5-buckets": ("t5", {**T5, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}),
    "t5-deep_decoder": ("t5", {**T5, "num_decoder_layers": 3, "feed_forward_proj": "gelu"}),
    "t5-1.1": ("t5", T5_1_1),
    "t5-1.1-silu": ("t5", {**T5_1_1, "feed_forward_proj": "gated-silu"}),
    "t5-1.1-tied": ("t5", {**T5, "feed_forward_proj": "gated-gelu"}),
    "marian": ("marian", MARIAN),
    "marian-scaled-swish": ("marian", {**MARIAN, "scale_embedding": True, "activation_function": "swish"}),
    "marian-two_depths": ("marian", {**MARIAN, "decoder_layers": 1, "decoder_ffn_dim": 16}),
    "marian-two_widths": ("marian", {**MARIAN, "decoder_attention_heads": 4, "activation_function": "relu"}),
    "marian-two_tables": ("marian", {**MARIAN, "share_encoder_decoder_embeddings": False}),
    "marian-untied": (
        "marian",
        {**MARIAN, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    ),
}
TWO_SIDED = ("t5", "marian")
ATOL = 1e-10  # float64 through two layers of random weights, logits up to some tens


def make(family: str, options: dict[str, Any], dtype: torch.dtype = torch.float64) -> Any:
    """A model with every parameter and bias drawn at random, so that none hides at 0 or 1."""
    cls = CLASSES[family]
    model = cls(cls.config_class(**{"vocab_size": V, **options})).to(dtype).eval()
    if family == "t5" and options.get("tie_word_embeddings") is False:
        # As in the released files of version 1.1; a model made from its config is tied whatever that says.
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, std=0.5, generator=generator)
    if family == "marian":
        nn.init.normal_(model.final_logits_bias, generator=generator)
    return model


def case(name: str, **changes: Any) -> Any:
    family, options = CASES[name]
    return make(family, {**options, **changes})


def without_float32(model: Any, monkeypatch: Any) -> Any:
    """What transformers computes in float32 whatever the dtype of a model, in the dtype of the model."""

    def norm(self: Any, x: Tensor) -> Tensor:
        return self.weight * x * (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()

    def rotary(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        width, base = self.config.head_dim, self.config.rope_parameters["rope_theta"]
        frequency = torch.tensor([base ** (-2 * i / width) for i in range(width // 2)] * 2, dtype=x.dtype)
        angle = position_ids[..., None].to(x.dtype) * frequency
        return angle.cos(), angle.sin()

    from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    monkeypatch.setattr(LlamaRMSNorm, "forward", norm)
    monkeypatch.setattr(T5LayerNorm, "forward", norm)
    monkeypatch.setattr(LlamaRotaryEmbedding, "forward", rotary)
    for name, parameter in model.named_parameters():
        if "embed_positions" in name:
            places, d = parameter.shape
            angles = [[place / 10000 ** (2 * i / d) for i in range(d // 2)] for place in range(places)]
            table = [[f(a) for f in (math.sin, math.cos) for a in row] for row in angles]
            parameter.data.copy_(torch.tensor(table, dtype=parameter.dtype))
    return model


# --- what both are given -------------------------------------------------------------------------


def ids(n_tokens: int, seed: int = 1) -> Tensor:
    return torch.randint(1, V, (2, n_tokens), generator=torch.Generator().manual_seed(seed))


MASKS = {
    "no_pads": None,
    "right_padding": torch.tensor([[1] * 9, [1] * 5 + [0] * 4]),
    "left_padding": torch.tensor([[0] * 3 + [1] * 6, [1] * 9]),
}


def logits(model: Any, mask: Tensor | None = None) -> Tensor:
    """Of real tokens, from a model of ours or of transformers."""
    source = ids(9)
    ours = isinstance(model, Transformer)
    if model.spec.architecture == "encoder_decoder" if ours else model.config.is_encoder_decoder:
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=ids(6, seed=2)).logits
    places = {} if ours or mask is None else {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
    out = model(input_ids=source, attention_mask=mask, **places).logits
    return out if mask is None else out[mask.bool()]


def assert_same_logits(ours: Any, theirs: Any, mask: Tensor | None = None, atol: float = ATOL) -> None:
    with torch.no_grad():
        expected = logits(theirs, mask)
        assert expected.std() > 0.1  # else everything would be equal
        close(logits(ours, mask), expected, atol=atol)


def changed(theirs: Any, change: Callable[[dict[str, Any]], None]) -> Transformer:
    """Ours of a model of theirs with the same weights and another description."""
    right = from_hf(theirs)
    node = right.spec.as_node()
    change(node)
    wrong = build_model(ModelSpec.from_config(node)).to(next(right.parameters()).dtype)
    wrong.load_state_dict(right.state_dict())
    return wrong.eval()
