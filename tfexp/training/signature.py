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
        "task": config["task"]["name"],
        "data": config["data"]["name"],
        "tok": _choice("tokenizer", config["data"]["tokenizer"], null_specials=usual_specials(config["task"]["name"])),
        "emb": _choice("embedding", model["embedding"]),
        "pos": _choice("position", model["position"]),
        "attn": _choice("attention", model["attention"]),
        "norm": _choice("norm", model["norm"]),
        "place": _choice("norm_placement", model["norm_placement"]),
        "res": _choice("residual", model["residual"]),
        "ffn": _choice("feedforward", model["feedforward"]),
        "d": model["d_model"],
        "h": f"{model['n_heads']}" + (f"/{model['n_kv_heads']}" if model["n_kv_heads"] != model["n_heads"] else ""),
        "f": model["d_ff"],
        "L": model["n_layers"],
        "opt": _choice("optim", config["optim"], keep=("lr",)),
        "sched": _choice("schedule", config["schedule"]),
        "batch": f"{config['data']['batch_size']}x{config['data']['seq_len']}x{config['trainer']['accumulate']}",
        "steps": config["trainer"]["max_steps"],
        "prec": config["trainer"]["precision"],
        "seed": config["seed"],
        "v": tfexp.__version__,
    }
    return "|".join(f"{key}:{value}" for key, value in parts.items())


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
        return str(value.get("name"))
    if isinstance(value, (list, tuple)):
        return "+".join(str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
