from copy import deepcopy

import pytest
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ReadonlyConfigError

import tfexp
from tests import runs
from tfexp.config import freeze as freeze_module
from tfexp.config import hardware
from tfexp.config.freeze import effective, freeze, run_hash, to_plain
from tfexp.config.settings import RunSettings
from tfexp.errors import ConfigError
from tfexp.registry import names
from tfexp.schema import NoEffect, fields_of

NO_EFFECT = (
    *("logger", "generation", "plugins", "outputs", "ablation", "seeds", "study", "cell"),
    # The data's fingerprint is in the hash; where the files lie is not.
    *("data.train", "data.val", "data.test", "data.encoding"),
    *("data.workers", "trainer.checkpoint_every", "trainer.progress"),
)
NUMBERS = {
    "lr_without_a_dot": ("optim.lr=1e-4", "optim.lr", 1e-4),
    "whole_lr": ("optim.lr=1", "optim.lr", 1.0),
    "steps_as_a_float": ("trainer.max_steps=1e3", "trainer.max_steps", 1000),
    "steps_with_a_point": ("trainer.max_steps=20.0", "trainer.max_steps", 20),
    "text_of_a_number": ("optim.lr='1e-4'", "optim.lr", 1e-4),
    "large_seed": ("seed=9007199254740993", "seed", 9007199254740993),
}
PLUGIN = """
from tfexp.registry import register
from tfexp.components.base import Position

@register("position", "my_position", gives={"extrapolates"})
class MyPosition(Position):
    def __init__(self, d_model: int, *, strength: float = 0.5) -> None:
        super().__init__()
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("freeze")
    return to_plain(runs.config(folder, "logger=csv", "model.attention.qk_norm=rmsnorm"))


def leaves(node, path=()):
    """Every key that holds a value, by its dotted path."""
    for key, value in node.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield ".".join((*path, key))


def changed(config: dict, key: str) -> dict:
    """The config with another value at one key."""
    copy = deepcopy(config)
    *parents, last = key.split(".")
    node = copy
    for parent in parents:
        node = node[parent]
    value = node[last]
    if isinstance(value, bool):
        node[last] = not value
    elif isinstance(value, int | float):
        node[last] = value + 1
    elif key == "model.cross_attention":  # null, or a component
        node[last] = node["attention"]
    else:
        node[last] = [*value, "x"] if isinstance(value, list) else f"{value}x"
    return copy


def test_a_frozen_config_cannot_be_changed(tmp_path):
    config = runs.config(tmp_path)
    for key in ("seed", "optim.lr", "model.dropout.residual", "data.tokenizer.name"):
        with pytest.raises(ReadonlyConfigError):
            OmegaConf.update(config, key, 1)
    with pytest.raises(ReadonlyConfigError):
        config.optim.beta1 = 0.5
    assert OmegaConf.is_struct(config)


def test_freezing_twice_and_reading_back_change_nothing(tmp_path):
    config = runs.config(tmp_path, "logger=[csv,wandb]", "model.attention.qk_norm=rmsnorm")
    assert freeze(config) == config
    read = OmegaConf.create(OmegaConf.to_yaml(config))
    assert isinstance(read, DictConfig)
    assert freeze(read) == config
    assert run_hash(freeze(read), "x") == run_hash(config, "x")


def test_every_default_is_filled_in(plain):
    assert plain["model"]["head_dim"] == 8
    assert plain["model"]["n_kv_heads"] == 2
    assert plain["model"]["attention"]["score"] == {"name": "scaled_dot", "scale": None}
    assert plain["model"]["attention"]["qk_norm"] == {"name": "rmsnorm", "eps": 1e-6}
    assert plain["data"]["seq_len"] == 8
    assert plain["logger"] == {"csv": {"name": "csv"}}
    assert plain["generation"]["max_new_tokens"] == 200
    assert "hydra" not in plain


@pytest.mark.parametrize(("override", "key", "value"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_arrive_as_the_type_of_the_key(override, key, value):
    found = OmegaConf.select(tfexp.compose(override), key)
    assert found == value
    assert type(found) is type(value)


def test_numbers_of_a_yaml_file_arrive_as_the_type_of_the_key(tmp_path):
    # H34: `lr: 1e-4` is text to plain YAML 1.1 readers, and 1e3 a float to all.
    (tmp_path / "experiment").mkdir()
    lines = "# @package _global_\noptim:\n  lr: 1e-4\ntrainer:\n  max_steps: 1e3\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(lines, encoding="utf-8")
    config = tfexp.compose("experiment=mine", config_dir=str(tmp_path))
    assert (config.optim.lr, config.trainer.max_steps) == (1e-4, 1000)
    assert isinstance(config.optim.lr, float)
    assert isinstance(config.trainer.max_steps, int)
    assert freeze({**to_plain(config), "optim": {"name": "adamw", "lr": "1e-4"}}).optim.lr == 1e-4


@pytest.mark.parametrize(("bfloat16", "written"), [(True, "bf16-mixed"), (False, "32-true")])
def test_what_auto_became_is_written(monkeypatch, bfloat16, written):
    monkeypatch.setattr(freeze_module, "has_bfloat16", lambda accelerator: bfloat16)
    assert tfexp.compose("trainer.precision=auto").trainer.precision == written
    assert tfexp.compose("trainer.precision=32-true").trainer.precision == "32-true"


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16", None])
def test_a_cpu_has_bfloat16_where_it_says_so(monkeypatch, flag):
    monkeypatch.setattr(hardware, "cpu_flags", lambda: {"sse", "avx512f", *([flag] if flag else [])})
    assert hardware.has_bfloat16("cpu") is (flag is not None)
    assert hardware.cpu_model()


def test_a_machine_without_cpuinfo_is_asked_otherwise(monkeypatch):
    monkeypatch.setattr(hardware, "_cpu_info", lambda: {})
    assert hardware.cpu_flags() == set()
    assert isinstance(hardware.cpu_model(), str)


def test_the_hash_is_ten_hexadecimal_digits_of_config_and_data(plain):
    assert len(run_hash(plain, "data")) == 10
    assert int(run_hash(plain, "data"), 16) >= 0
    assert run_hash(plain, "data") != run_hash(plain, "other data")


def test_the_hash_changes_with_the_version(plain, monkeypatch):
    before = run_hash(plain, "data")
    monkeypatch.setattr(tfexp, "__version__", "9.9.9")
    assert run_hash(plain, "data") != before


def has_no_effect(key: str) -> bool:
    return any(key == marked or key.startswith(f"{marked}.") for marked in NO_EFFECT)


def test_the_hash_sees_every_key_that_can_change_a_result_and_no_other(plain):
    before = run_hash(plain, "data")
    seen, unseen = set(), set()
    for key in leaves(plain):
        if not key.endswith(".name"):
            (unseen if run_hash(changed(plain, key), "data") == before else seen).add(key)
    assert {key for key in unseen if not has_no_effect(key)} == set()
    assert {key for key in seen if has_no_effect(key)} == set()
    assert len(seen) > 40


@pytest.mark.parametrize("slot", ["position", "norm", "norm_placement", "feedforward"])
def test_the_hash_sees_every_choice(tmp_path, slot):
    hashes = {run_hash(runs.config(tmp_path, f"model/{slot}={name}"), "data") for name in names(slot)}
    assert len(hashes) == len(names(slot))


def test_what_has_no_effect_is_what_is_marked_so():
    marked = {field.name for field in fields_of(RunSettings) if field.mark(NoEffect)}
    assert marked == {key for key in NO_EFFECT if "." not in key}
    assert "logger" not in effective(tfexp.compose())


def test_a_plugin_without_yaml_gets_a_group_entry(tmp_path, scratch_registry):
    (tmp_path / "my_idea.py").write_text(PLUGIN, encoding="utf-8")
    plugin = f"plugins=[{tmp_path}/my_idea.py]"
    config = tfexp.compose("model/position=my_position", plugin, "model.position.strength=2")
    assert config.model.position == {"name": "my_position", "strength": 2.0}
    assert config.plugins == [f"{tmp_path}/my_idea.py"]
    with pytest.raises(ConfigError, match=r"^model\.position\.strengt: unknown key; did you mean 'strength'"):
        tfexp.compose("model/position=my_position", plugin, "model.position.strengt=2")


def test_a_single_plugin_may_stand_without_brackets(tmp_path, scratch_registry):
    (tmp_path / "my_idea.py").write_text(PLUGIN, encoding="utf-8")
    config = tfexp.compose("model/position=my_position", f"plugins={tmp_path}/my_idea.py")
    assert config.plugins == [f"{tmp_path}/my_idea.py"]
    assert freeze(config) == config


def test_model_needs_a_vocabulary_to_be_built():
    with pytest.raises(ConfigError, match=r"^model\.vocab_size: null means the tokenizer's; set it to build without"):
        tfexp.build(tfexp.compose())
