"""What lies in conf/ against what the code says: every key, every default, every choice."""

import re

import pytest
from omegaconf import OmegaConf

import tfexp
from tests.runs import ROOT
from tfexp.ablation.study import Study
from tfexp.config.compose import compose_tree, conf_dir
from tfexp.config.freeze import to_plain
from tfexp.config.settings import RunSettings, TrainerSettings
from tfexp.model.count import count_parameters, meta_model
from tfexp.model.spec import ModelSpec
from tfexp.registry import SLOTS, check_choice, common_fields, names, resolve
from tfexp.schema import ChoiceOf, fields_of

CHOICES = [(slot, name) for slot in SLOTS for name in names(slot)]
NEEDS = {
    "data/text_files": ["data.train=text.txt"],
    "data/table_files": ["data.train=rows.tsv"],
    "data/parallel_files": ["data.train=[text.de,text.en]"],
    "data/hub": ["data.path=owner/name"],
    "data/tokenizer/file": ["data.tokenizer.path=tokenizer.json"],
}
# Sources whose YAML chooses another tokenizer than the default: most of them generate words between spaces.
OF_WORDS = ("copy", "dyck", "induction", "listops", "modular_addition", "mqar", "passkey", "reverse", "scan", "sort")
TOKENIZERS = {("data", name): "word" for name in OF_WORDS} | {("data", "emoji_language"): "char"}
SIZES_OF_DATA = {"vocab_size": 65, "n_labels": 3}
CONF = ROOT / "conf"
PUBLISHED = ("experiment", "ablation", "model")  # settings of keys that are explained elsewhere
EXPLAINED = [
    p for p in sorted(CONF.rglob("*.yaml")) if p.parent.name not in PUBLISHED or p.name in ("small.yaml", "train.yaml")
]


def node_of(tree, group: str):
    return OmegaConf.to_container(OmegaConf.select(tree, group.replace("/", ".")), resolve=True)


def expected(slot: str, name: str) -> dict:
    """The constructor's keys and defaults, and those of the slot, as a config node shows them."""
    fields = (*resolve(slot, name).fields, *common_fields(slot))
    chosen = {"tokenizer": TOKENIZERS[slot, name]} if (slot, name) in TOKENIZERS else {}
    return {"name": name, **{f.name: shown(f, chosen.get(f.name, f.default)) for f in fields}}


def shown(field, default):
    choice = field.mark(ChoiceOf)
    return default if choice is None or default is None else expected(choice.slot, default)


def yaml_files(group: str) -> list[str]:
    return sorted(p.stem for p in (CONF / group).glob("*.yaml"))


@pytest.mark.parametrize(("slot", "name"), CHOICES, ids=["/".join(choice) for choice in CHOICES])
def test_a_group_entry_shows_exactly_the_constructors_keys_and_defaults(slot, name):
    group = SLOTS[slot].group
    tree = compose_tree([f"{group}={name}", *NEEDS.get(f"{group}/{name}", [])])
    found = node_of(tree, group)
    if slot == "logger":
        assert check_choice(slot, {"name": name, **found[name]}, group) == expected(slot, name)
        return
    required = {f.name for f in resolve(slot, name).fields if f.required}
    assert {k: v for k, v in found.items() if k not in required} == {
        k: v for k, v in expected(slot, name).items() if k not in required
    }
    assert found.keys() == expected(slot, name).keys()


def test_every_yaml_of_a_slot_is_a_registered_choice_and_every_choice_has_one():
    assert {slot: yaml_files(s.group) for slot, s in SLOTS.items()} == {slot: names(slot) for slot in SLOTS}


@pytest.mark.parametrize("path", EXPLAINED, ids=[p.relative_to(CONF).as_posix() for p in EXPLAINED])
def test_every_key_of_a_file_is_explained(path):
    above, *lines = path.read_text(encoding="utf-8").partition("\nhydra:")[0].splitlines()
    assert above.startswith("#")
    for line in lines:
        is_value = re.match(r"\s*\w+: \S", line) and not line.lstrip().startswith("name:")
        assert not is_value or "#" in line or above.lstrip().startswith("#") or line.endswith(": {}"), line
        above = line


def test_the_trainer_file_shows_exactly_the_settings():
    found = node_of(compose_tree([]), "trainer")
    required = {"max_steps"}
    assert found.keys() == {f.name for f in fields_of(TrainerSettings)}
    for field in fields_of(TrainerSettings):
        assert field.name in required or found[field.name] == field.default


def test_the_root_shows_every_setting():
    tree = OmegaConf.to_container(compose_tree([]), resolve=True)
    assert tree.keys() | {"logger", "ablation"} == {f.name for f in fields_of(RunSettings)}


@pytest.mark.parametrize("name", yaml_files("model"))
def test_every_model_shows_every_key_and_builds(name):
    node = node_of(compose_tree([f"model={name}"]), "model")
    assert node.keys() == {f.name for f in fields_of(ModelSpec)}
    spec = ModelSpec.from_config({**node, **{key: node[key] or size for key, size in SIZES_OF_DATA.items()}})
    spec.check_compatible()
    assert count_parameters(meta_model(spec)).total > 0


def test_gpt2_has_the_published_number_of_parameters():
    spec = ModelSpec.from_config(to_plain(tfexp.compose("model=gpt2"))["model"])
    assert count_parameters(meta_model(spec)).total == 124_439_808


@pytest.mark.parametrize("name", yaml_files("task"))
def test_every_task_brings_data_and_a_model_that_it_can_use(name):
    config = tfexp.compose(f"task={name}")
    assert config.task.name == name
    # What stands on the command line is stronger than what the task brings, in any order.
    for order in (("data=copy", f"task={name}"), (f"task={name}", "data=copy")):
        assert compose_tree(list(order)).data.name == "copy"


@pytest.mark.parametrize("name", yaml_files("experiment"))
def test_every_experiment_composes(name):
    source = compose_tree([f"experiment={name}"]).data.name
    given = [f"experiment={name}", *NEEDS.get(f"data/{source}", [])]
    config = tfexp.compose(*given)
    assert count_parameters(meta_model(ModelSpec.from_config({**to_plain(config)["model"], **SIZES_OF_DATA}))).total
    # What stands on the command line is stronger than the experiment.
    assert tfexp.compose(*given, "trainer.max_steps=7").trainer.max_steps == 7


@pytest.mark.parametrize("name", yaml_files("ablation"))
def test_every_study_composes_with_every_variant(name):
    plain = OmegaConf.to_container(compose_tree([f"ablation={name}"]), resolve=True)
    assert isinstance(plain, dict)
    study = Study.from_config(plain["ablation"])
    for variant in study.all_variants():
        assert tfexp.compose(*study.base, *variant.overrides).model.position.name
    assert study.name == name


def test_conf_is_found_beside_the_package_and_inside_a_wheel(tmp_path, monkeypatch):
    assert conf_dir() == CONF
    package = tmp_path / "tfexp"
    (package / "conf").mkdir(parents=True)
    (package / "config").mkdir()
    monkeypatch.setattr("tfexp.config.compose.__file__", str(package / "config" / "compose.py"))
    assert conf_dir() == package / "conf"


def test_a_folder_of_ones_own_adds_and_replaces_choices(tmp_path):
    (tmp_path / "model").mkdir()
    small = (CONF / "model" / "small.yaml").read_text(encoding="utf-8")
    (tmp_path / "model" / "mine.yaml").write_text(small.replace("d_model: 128", "d_model: 24"), encoding="utf-8")
    assert tfexp.compose("model=mine", config_dir=str(tmp_path)).model.d_model == 24
    assert tfexp.compose("model=small", config_dir=str(tmp_path)).model.d_model == 128
    with pytest.raises(tfexp.errors.ConfigError, match=r"^model: unknown choice 'mine'; choices: "):
        tfexp.compose("model=mine")


def test_several_loggers_are_composed_beside_each_other():
    loggers = to_plain(tfexp.compose("logger=[csv,tensorboard]"))["logger"]
    assert loggers == {"csv": {"name": "csv"}, "tensorboard": {"name": "tensorboard"}}
    assert to_plain(tfexp.compose("logger=wandb"))["logger"].keys() == {"wandb"}
