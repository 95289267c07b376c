"""Every way to get the config wrong, and the line that says so: key, value, nearest right choice."""

import pytest
from hydra.errors import HydraException

import tfexp
from tfexp.config.messages import explain
from tfexp.errors import ConfigError

UNKNOWN = {
    "top": ("seedd=1", "seedd: unknown key or group; did you mean 'seed'?"),
    "group": ("modle=small", "modle: unknown key or group; did you mean 'model'?"),
    "experiment_group": ("experiments=x", "experiments: unknown key or group; did you mean 'experiment'?"),
    "nested_group": ("model/positionn=rope", "model/positionn: unknown key or group; did you mean 'model/position'?"),
    "choice": ("model/position=ropee", "model/position: unknown choice 'ropee'; did you mean 'rope'?"),
    "choice_of_a_model": ("model=smal", "model: unknown choice 'smal'; did you mean 'small'?"),
    "choice_in_a_list": ("logger=[csv,wandbb]", "logger: unknown choice 'wandbb'; did you mean 'wandb'?"),
    "no_near_choice": ("ablation=xyz", "ablation: unknown choice 'xyz'; choices: quickstart."),
    "optim": ("optim.lrr=1", "optim.lrr: unknown key; did you mean 'lr'?"),
    "trainer": ("trainer.max_step=1", "trainer.max_step: unknown key; did you mean 'max_steps'?"),
    "model": ("model.d_modell=1", "model.d_modell: unknown key; did you mean 'd_model'?"),
    "dropout": ("model.dropout.residua=0", "model.dropout.residua: unknown key; did you mean 'residual'?"),
    "component": ("model.position.bas=1", "model.position.bas: unknown key; did you mean 'base'?"),
    "key_of_another": ("model.norm.bias=true", "model.norm.bias: unknown key; keys here: eps."),
    "score": ("model.attention.score.scal=1", "model.attention.score.scal: unknown key; did you mean 'scale'?"),
    "data": ("data.seqlen=1", "data.seqlen: unknown key; did you mean 'seq_len'?"),
    "tokenizer": ("data.tokenizer.vocab=1", "data.tokenizer.vocab: unknown key; did you mean 'vocab_size'?"),
    "generation": ("generation.temprature=1", "generation.temprature: unknown key; did you mean 'temperature'?"),
    "plus": ("+model.d_modell=1", "model.d_modell: unknown key; did you mean 'd_model'?"),
    "plus_plus": ("++trainer.max_stepz=1", "trainer.max_stepz: unknown key; did you mean 'max_steps'?"),
    "plus_top": ("+seedd=1", "seedd: unknown key; did you mean 'seed'?"),
    "name_as_value": ("model.position=ropee", "model.position: unknown position 'ropee'; did you mean 'rope'?"),
    "name_in_a_key": ("model.attention.qk_norm=rms", "model.attention.qk_norm: unknown norm 'rms'; did you mean"),
}
TYPES = {
    "part_of_a_step": ("trainer.max_steps=1.5", "trainer.max_steps: expected int >= 1, got 1.5"),
    "word": ("optim.lr=fast", "optim.lr: expected float > 0, got 'fast'"),
    "nan": ("optim.lr=nan", "optim.lr: expected float > 0, got nan"),
    "range": ("optim.lr=0", "optim.lr: must be > 0, got 0"),
    "negative_seed": ("seed=-1", "seed: must be >= 0, got -1"),
    "bool_for_int": ("seed=true", "seed: expected int >= 0, got True"),
    "int_for_bool": ("trainer.compile=1", "trainer.compile: expected bool, got 1"),
    "literal": ("trainer.precision=fp16", "trainer.precision: expected one of auto, 32-true, bf16-mixed, got 'fp16'; "),
    "literal_in_a_list": ("data.tokenizer.specials=[cls]", "data.tokenizer.specials: expected list of one of pad, unk"),
    "null_group": ("model.position=null", "model.position: expected the name of a position, got None; choices: alibi"),
    # H36: null that became text, and words for true.
    "None": ("model.dropout.residual=None", "expected float >= 0 and < 1, got 'None'; write null for no value"),
    "None_optional": ("trainer.clip=None", "trainer.clip: expected float or null > 0, got 'None'; write null for"),
    "None_path": ("data=text_files data.train=None", "data.train: expected str or list of str, got 'None'; write null"),
    "None_cell": ("cell=None", "cell: expected str or null, got 'None'; write null for no value"),
    "empty": ("trainer.clip=", "trainer.clip: expected float or null > 0, got ''; write null for no value"),
    "yes": ("trainer.compile=yes", "trainer.compile: expected bool, got 'yes'; write true or false"),
    "off": ("trainer.progress=off", "trainer.progress: expected bool, got 'off'; write true or false"),
}
COMBINATIONS = {
    "missing": ("data=text_files", "data.train: a value is missing; set data.train=str_or_list_of_str"),
    "deleted": ("~optim", "optim: a value is missing"),
    "heads": ("model.d_model=100 model.n_heads=3", "model.n_heads: d_model=100 is not divisible by n_heads=3; use 2"),
    "odd_rope": ("model.d_model=20 model.n_heads=4", "model.position=rope rotates pairs: head_dim must be even, got 5"),
    "length": ("data.seq_len=999", "data.seq_len: 999 tokens do not fit model.max_seq_len=128; lower one or raise"),
    "devices": ("trainer.devices=2", "trainer.devices: this version trains a run on one device; set trainer.devices=1"),
    "two_values": ("optim.lr=1e-3,1e-4", "optim.lr=1e-3,1e-4: add -m to run each value, or write optim.lr=[1e-3,1e-4]"),
    "interpolation": ("optim.lr=${nope}", "optim.lr: Interpolation key 'nope' not found"),
    "null_model": ("model=null", "model: null is not a choice; choices: "),
    "number_as_choice": ("optim=3", "optim: 3 is not a choice; choices: adamw, muon, sgd."),
    "equals_in_a_value": (
        "outputs=a=b",
        "cannot read the override: mismatched input '=' expecting <EOF>; quote values",
    ),
    "open_bracket": ("optim.lr=[1", "cannot read the override: no viable alternative at input '[1'; quote values"),
    "open_quote": ("outputs='a", "cannot read the override: LexerNoViableAltException: outputs='a; quote values"),
    "no_value": ("trainer", "trainer: expected key=value"),
}
FINE = {
    "null": "trainer.clip=null",
    "True": "trainer.compile=True",
    "no_logger": "logger=null",
    "no_experiment": "experiment=null",
    "added_logger": "+logger=csv",
}
EVERY = {
    **{f"unknown-{k}": v for k, v in UNKNOWN.items()},
    **{f"type-{k}": v for k, v in TYPES.items()},
    **{f"combination-{k}": v for k, v in COMBINATIONS.items()},
}


@pytest.mark.parametrize(("overrides", "message"), EVERY.values(), ids=EVERY)
def test_a_wrong_config_is_refused_in_a_line(overrides, message):
    with pytest.raises(ConfigError) as error:
        tfexp.build(tfexp.compose(*overrides.split(), "model.vocab_size=10"))
    assert message in str(error.value)
    assert "++" not in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("override", FINE.values(), ids=FINE)
def test_what_reads_alike_but_is_right_is_taken(override):
    assert tfexp.compose(override)


def test_what_hydra_says_beyond_these_is_cut_to_two_lines():
    assert explain(HydraException("one\n  two\nthree")) == "one two"
    assert explain(HydraException("Could not load 'trainer/x'.\nSearch path")).startswith("trainer/x: unknown key or")
