import sys
import textwrap
from importlib.metadata import EntryPoint

import pytest

from tfexp.errors import ConfigError, RegistryError
from tfexp.registry import check_choice, create, discover, names, resolve
from tfexp.slots import SLOTS, Slot


def plugin(folder, name: str, slot: str = "norm", component: str = "mine", tail: str = ""):
    """Write a plugin that registers one component, and return its path."""
    path = folder / f"{name}.py"
    code = f"""
        from tfexp.registry import register

        @register("{slot}", "{component}")
        class Mine:
            def __init__(self, d_model: int, *, power: float = 2.0) -> None:
                self.d_model, self.power = d_model, power
    """
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(code) + tail, encoding="utf-8")
    return path


def test_a_plugin_from_a_file_is_a_full_member(scratch_registry, tmp_path):
    path = plugin(tmp_path, "my_idea")
    discover([str(path)])
    assert "mine" in names("norm")
    assert check_choice("norm", "mine", "model.norm") == {"name": "mine", "power": 2.0}
    assert create("norm", {"name": "mine", "power": 3.0}, {"d_model": 8}).power == 3.0
    assert resolve("norm", "mine").file == str(path)


def test_a_plugin_from_a_module_is_imported_once(scratch_registry, tmp_path, monkeypatch):
    plugin(tmp_path, "tfexp_test_idea", tail="\nprint('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    discover(["tfexp_test_idea"])
    discover(["tfexp_test_idea"])
    assert resolve("norm", "mine").target.__module__ == sys.modules.pop("tfexp_test_idea").__name__


def test_a_missing_file_is_named(scratch_registry):
    with pytest.raises(ConfigError, match=r"^plugins: there is no file no/such/file\.py$"):
        discover(["no/such/file.py"])


def test_a_missing_module_is_named(scratch_registry):
    with pytest.raises(ConfigError, match="plugins: importing 'no_such_idea' failed: ModuleNotFoundError: No module"):
        discover(["no_such_idea"])


def test_a_failing_plugin_says_why_and_can_be_tried_again(scratch_registry, tmp_path):
    path = plugin(tmp_path, "broken", tail="\nraise ValueError('not today')\n")
    with pytest.raises(ConfigError, match=r"plugins: importing '.*broken\.py' failed: ValueError: not today"):
        discover([str(path)])
    assert not any(getattr(module, "__file__", None) == str(path) for module in sys.modules.values())
    plugin(tmp_path, "broken")
    discover([str(path)])
    assert "mine" in names("norm")


def test_a_plugin_that_breaks_a_rule_gives_the_rules_own_message(scratch_registry, tmp_path):
    path = plugin(tmp_path, "my_idea", slot="nrm")
    with pytest.raises(RegistryError, match=r"^unknown slot 'nrm'; did you mean 'norm'"):
        discover([str(path)])


def test_installed_entry_points_are_found_once_and_named_when_they_fail(scratch_registry, tmp_path, monkeypatch):
    plugin(tmp_path, "tfexp_test_idea")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint("idea", "tfexp_test_idea", "tfexp.plugins")]
    monkeypatch.setattr(scratch_registry, "entry_points", lambda group: entries)
    discover()
    assert "mine" in names("norm")
    sys.modules.pop("tfexp_test_idea")
    entries.append(EntryPoint("bad", "no_such_idea", "tfexp.plugins"))
    for _ in range(2):  # a second call does not pass over the failure
        with pytest.raises(ConfigError, match="plugins: importing 'bad' failed: ModuleNotFoundError"):
            discover()


def test_one_name_twice_is_refused_and_both_files_are_named(scratch_registry, tmp_path):
    one, other = plugin(tmp_path, "one"), plugin(tmp_path, "other")
    with pytest.raises(RegistryError) as error:
        discover([str(one), str(other)])
    assert str(error.value) == f"norm/mine is registered twice: in {one} (Mine) and in {other} (Mine)"
    assert resolve("norm", "mine").file == str(one)


def test_two_files_of_one_name_in_two_folders_are_two_plugins(scratch_registry, tmp_path):
    one, other = plugin(tmp_path / "a", "idea"), plugin(tmp_path / "b", "idea")
    with pytest.raises(RegistryError) as error:
        discover([str(one), str(other)])
    assert str(error.value) == f"norm/mine is registered twice: in {one} (Mine) and in {other} (Mine)"


def test_a_slot_whose_package_fails_is_not_half_known_afterwards(scratch_registry, tmp_path, monkeypatch):
    (tmp_path / "tfexp_test_slot").mkdir()
    (tmp_path / "tfexp_test_slot" / "second.py").write_text("import no_such_module", encoding="utf-8")
    (tmp_path / "tfexp_test_slot" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(SLOTS, "norm", Slot("", "tfexp_test_slot", "model/norm"))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            names("norm")
