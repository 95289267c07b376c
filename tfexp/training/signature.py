"""A run in one line, after sacreBLEU's idea, and the slug that names its folder."""

import re
from collections.abc import Mapping
from typing import Any

import tfexp
from tfexp.config.freeze import usual_specials
from tfexp.data.tokenization import Special
from tfexp.registry import resolve


def signature(config: Mapping[str, Any]) -> str:
    """`task:next_token|data:python_stdlib|pos:rope|...|v:0.1.0`: names, and keys that are not defaults."""
    model = config["model"]
    parts = {
        "task": _choice("task", config["task"]),
        "arch": model["architecture"],
        "data": config["data"]["name"],
        "tok": _choice("tokenizer", config["data"]["tokenizer"], null_specials=usual_specials(config["task"]["name"])),
        "emb": _choice("embedding", model["embedding"]),
        "pos": _choice("position", model["position"]),
        "attn": _choice("attention", model["attention"]),
        "norm": _choice("norm", model["norm"]),
        "place": _choice("norm_placement", model["norm_placement"]),
        "res": _choice("residual", model["residual"]),
        "ffn": _choice("feedforward", model["feedforward"]),
        "pool": _choice("pooling", model["pooling"]) if _pools(model) else "",
        "head": _choice("head", model["head"]) + ("" if model["tie_embeddings"] or _pools(model) else "+free"),
        "init": _choice("init", model["init"]),
        "drop": "+".join(f"{site}={rate:g}" for site, rate in model["dropout"].items() if rate),
        **{side: _overrides(model[side]) for side in ("encoder", "decoder")},
        "layers": "+".join(f"{o['where']}({_overrides(o)})" for o in model["layers"]),
        "d": model["d_model"],
        "h": f"{model['n_heads']}" + (f"/{model['n_kv_heads']}" if model["n_kv_heads"] != model["n_heads"] else ""),
        "f": model["d_ff"],
        "L": model["n_layers"],
        "opt": _choice("optim", config["optim"], keep=("lr",)),
        "sched": _choice("schedule", config["schedule"]),
        "batch": _batch(config),
        "steps": config["trainer"]["max_steps"],
        "prec": config["trainer"]["precision"],
        "seed": config["seed"],
        "v": tfexp.__version__,
    }
    return "|".join(f"{key}:{value}" for key, value in parts.items() if value != "")


def slug(config: Mapping[str, Any]) -> str:
    """A short readable name for the folder; the hash behind it is what is unique."""
    model = config["model"]
    parts = [
        config["task"]["name"],
        config["data"]["name"],
        model["position"]["name"],
        model["attention"]["name"],
        f"d{model['d_model']}",
        f"L{model['n_layers']}",
        f"s{config['seed']}",
    ]
    return re.sub(r"[^A-Za-z0-9_.-]", "_", "-".join(parts))


def tags(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Registered names of the model's components, as dashboards show them."""
    return tuple(f"{slot}:{v['name']}" for slot, v in config["model"].items() if isinstance(v, Mapping) and "name" in v)


def _pools(model: Mapping[str, Any]) -> bool:
    return "sequence_logits" in resolve("head", model["head"]["name"]).gives


def _batch(config: Mapping[str, Any]) -> str:
    """`16x128x1`: examples (or tokens), length, micro-batches; with what becomes of documents and of long examples."""
    data = config["data"]
    size = f"{data['batch_tokens']}tokens" if data["batch_tokens"] else data["batch_size"]
    more = [value for key, usual in USUAL.items() if (value := data[key]) != usual]
    return "+".join([f"{size}x{data['seq_len']}x{config['trainer']['accumulate']}", *more])


USUAL = {"sampling": "blocks", "packing": "across", "overlong": "truncate"}


def _overrides(changes: Mapping[str, Any]) -> str:
    """What a side or a layer has of its own: `n_layers=6,position=alibi`."""
    kept = {key: value for key, value in changes.items() if key not in ("where", "side")}
    return ",".join(f"{key}={_value(value)}" for key, value in kept.items())


def _choice(
    slot: str, node: Mapping[str, Any], keep: tuple[str, ...] = (), null_specials: list[Special] | None = None
) -> str:
    """`rope[base=500000]`: the name, with the keys that differ from the constructor's defaults."""
    defaults = {field.name: field.default for field in resolve(slot, node["name"]).fields}
    if null_specials and defaults.get("specials", ()) is None:
        defaults["specials"] = null_specials  # what a frozen config says in place of null
    changed = [f"{k}={_value(node[k])}" for k in defaults if k in keep or not _same(node[k], defaults[k])]
    return node["name"] + (f"[{','.join(changed)}]" if changed else "")


def _same(value: Any, default: Any) -> bool:
    # A nested choice may be declared by its name alone.
    named = isinstance(value, Mapping) and isinstance(default, str)
    return value["name"] == default if named else value == default


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value["name"]) if "name" in value else "+".join(f"{k}{v:g}" for k, v in value.items() if v) or "0"
    if isinstance(value, (list, tuple)):
        return "+".join(str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
