import pytest

from tfexp import errors
from tfexp.errors import nearest

HINTS = [
    ("close", "ropee", ["rope", "alibi"], "did you mean 'rope'?"),
    ("the_closest_of_two", "layernrm", ["layernorm", "batchnorm"], "did you mean 'layernorm'?"),
    ("none_is_close", "xyz", ["rope", "alibi"], "choices: alibi, rope."),
    ("nothing_to_choose", "xyz", [], "there are no choices."),
    (
        "long_list",
        "xyz",
        [f"a{i:02}" for i in range(13)],
        "choices: " + ", ".join(f"a{i:02}" for i in range(12)) + ", ....",
    ),
]


@pytest.mark.parametrize(("name", "known", "hint"), [row[1:] for row in HINTS], ids=[row[0] for row in HINTS])
def test_nearest_name(name, known, hint):
    assert nearest(name, known) == hint


@pytest.mark.parametrize("name", ["ConfigError", "RegistryError", "DataError", "RunError", "DivergedError"])
def test_every_error_is_a_tfexp_error(name):
    assert issubclass(getattr(errors, name), errors.TfexpError)
