"""Sources that come with Python and its packages."""

import pydoc_data.topics
import sys
import sysconfig
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import emoji
import pytest

from tests.runs import python_process
from tfexp.data.corpus import Labelled, Pair, in_fraction
from tfexp.data.emoji_table import SKIN_TONES, emoji_names
from tfexp.data.source.emoji_language import EmojiLanguage
from tfexp.data.source.emoji_names import EmojiNames
from tfexp.data.source.python_docs import PythonDocs
from tfexp.errors import ConfigError, DataError

REFUSED = {
    "one_language": (EmojiLanguage, {"languages": ["de"]}, r"data\.languages: name at least 2 of the emoji .*, got 1"),
    "no_target": (
        EmojiNames,
        {"targets": []},
        r"data\.targets: name at least 1 of the emoji package's languages, got 0",
    ),
    "twice": (EmojiLanguage, {"languages": ["de", "en", "de"]}, r"data\.languages: 'de' is listed twice"),
    "english": (
        EmojiNames,
        {"targets": ["de", "en"]},
        r"data\.targets: en is the language of the sources; name others",
    ),
    "unknown": (
        EmojiLanguage,
        {"languages": ["de", "dk"]},
        r"data\.languages: the emoji package has no language 'dk'; choices: ar, de, en, es, .*, zh\.",
    ),
    "unknown_target": (
        EmojiNames,
        {"targets": ["fr-FR"]},
        r"data\.targets: the emoji package has no language 'fr-FR'; .*",
    ),
}
PRINT = "from tfexp.data.source.{0} import {1} as S; print(S().read().fingerprint())"
SAME_IN_EVERY_PROCESS = {
    "emoji_language": EmojiLanguage,
    "emoji_names": EmojiNames,
}
SOURCE = '''"""Of the module."""


class C:
    """Of the class."""

    def f(self):
        """
        Of the method.

            Indented.
        """
        "no docstring"


if True:
    async def g():
        """Of the function."""
else:
    def h():
        """Of the module."""
try:
    pass
except ValueError:
    def i():
        "\\d \\ud800"
'''


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def library(tmp_path, monkeypatch) -> Path:
    """A standard library of the modules `one` and `two` without pages on the language."""
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    monkeypatch.setattr(sys, "stdlib_module_names", frozenset({"two", "one", "absent"}))
    monkeypatch.setattr(pydoc_data.topics, "topics", {})
    return tmp_path


def test_docstrings_are_found_in_the_source_once_each(library, monkeypatch):
    write(library / "one.py", SOURCE)
    write(library / "two" / "__init__.py", '"""Of the package."""')
    for name in ("two/test/t.py", "three.py", "two/notes.txt"):
        write(library / name, '"""Left out."""')
    write(library / "two" / "bad.py", '"""Not parsed."""\nprint "x"')
    monkeypatch.setattr(pydoc_data.topics, "topics", {"b": "  Of a page.\n", "a": "Of the class."})
    corpus = PythonDocs(val_fraction=0.4).read()
    found = {"Of the module.", "Of the class.", "Of the method.\n\n    Indented.", "Of the function."}
    assert {*corpus.train, *corpus.val} == found | {"Of the package.", "Of a page."}
    assert corpus.report == {"files_read": 3, "files_not_parsed": 1, "documents_read": 8, "documents_kept": 6}


def test_a_module_stands_on_one_side(library):
    for name in ("one", "two"):
        write(library / f"{name}.py", f'"""{name}"""\ndef f():\n    """{name} f"""')
    corpus = PythonDocs().read()
    assert {corpus.train, corpus.val} == {("one", "one f"), ("two", "two f")}


def test_a_library_without_docstrings_is_refused(library):
    with pytest.raises(DataError, match=r"^data=python_docs: found 0 documents under .*; too few to split$"):
        PythonDocs().read()


def test_the_real_docstrings_are_many_and_all_different():
    corpus = PythonDocs().read()
    texts = corpus.train + corpus.val
    assert sum(map(len, texts)) > 1_500_000
    assert 0.03 < len(corpus.val) / len(texts) < 0.3
    assert len(set(texts)) == len(texts) == corpus.report["documents_kept"] > 5_000
    assert any("web browser" in text for text in texts)
    assert not {"antigravity", "turtle"} & set(sys.modules)  # nothing was imported to be read


def test_languages_are_balanced_and_as_many_as_known():
    corpus = EmojiLanguage().read()
    assert corpus.kind == EmojiLanguage.kind == "labelled"
    for rows in (corpus.train, corpus.val):
        counts = Counter(row.labels for row in rows)
        assert set(counts) == {(language,) for language in ("de", "en", "es", "fr", "id", "it", "pt", "tr")}
        assert len(set(counts.values())) == 1
    assert len(corpus.train) + len(corpus.val) == 8 * corpus.report["emoji_read"]
    assert 12_000 < len(corpus.train) < 14_000
    assert 2_800 < len(corpus.val) < 3_500


def test_names_are_plain_words():
    names = emoji_names(["en", "de"], "data.languages")["😀"]
    assert names == {"en": "grinning face", "de": "grinsendes gesicht"}
    table = emoji_names(["en", "tr"], "data.languages")
    assert not any(set(":_") & {name[0], name[-1]} or "_" in name for row in table.values() for name in row.values())
    assert not any(SKIN_TONES & set(signs) for signs in table)
    assert any(SKIN_TONES & set(signs) for signs in emoji.EMOJI_DATA)  # there is something to leave out


def test_an_emoji_stands_on_one_side_in_all_its_languages():
    corpus, table = EmojiLanguage().read(), emoji_names(["en", "tr"], "data.languages")
    held = {signs for signs in table if in_fraction(signs, 0.2)}
    assert {row.text for row in corpus.val if row.labels == ("tr",)} == {table[signs]["tr"] for signs in held}
    assert {row.text for row in corpus.val if row.labels == ("en",)} == {table[signs]["en"] for signs in held}


def test_names_that_several_languages_share_are_counted(monkeypatch):
    names = {"😀": {"en": "x", "de": "x"}, "😁": {"en": "y", "de": "z"}, "😂": {"en": "z", "de": "w"}}
    monkeypatch.setattr("tfexp.data.source.emoji_language.emoji_names", lambda languages, key: names)
    corpus = EmojiLanguage(languages=["en", "de"], val_fraction=0.5).read()
    assert corpus.report == {"emoji_read": 3, "rows_of_several_languages": 4}
    assert sorted(corpus.train + corpus.val) == sorted(
        Labelled(name, (language,)) for row in names.values() for language, name in row.items()
    )


def test_english_names_become_german_ones():
    corpus = EmojiNames().read()
    assert corpus.kind == EmojiNames.kind == "pairs"
    assert Pair("grinning face", "grinsendes gesicht") in corpus.train + corpus.val
    assert 0.08 < len(corpus.val) / corpus.report["emoji_read"] < 0.12
    assert not {pair.source for pair in corpus.train} & {pair.source for pair in corpus.val}


def test_several_targets_are_asked_for_by_a_tag():
    corpus = EmojiNames(targets=["tr", "de"]).read()
    assert {pair.source.split(" ")[0] for pair in corpus.train} == {"<tr>", "<de>"}
    assert Pair("<de> grinning face", "grinsendes gesicht") in corpus.train + corpus.val
    sides = [{pair.source.split(" ", 1)[1] for pair in rows} for rows in (corpus.train, corpus.val)]
    assert not sides[0] & sides[1]
    one = EmojiNames(targets=["de"]).read()
    assert {pair.source for pair in one.val} == sides[1]  # the split does not depend on the targets


def test_names_that_differ_in_capitals_stand_on_one_side(monkeypatch):
    names = {str(i): {"en": f"Name {i // 2}" if i % 2 else f"name {i // 2}", "de": str(i)} for i in range(80)}
    monkeypatch.setattr("tfexp.data.source.emoji_names.emoji_names", lambda languages, key: names)
    corpus = EmojiNames(val_fraction=0.3).read()
    sides = defaultdict(set)
    for side, rows in corpus.parts().items():
        for pair in rows:
            sides[pair.source.casefold()].add(side)
    assert all(len(found) == 1 for found in sides.values())
    # By the names as they are written the two would part.
    assert any(in_fraction(f"name {i}", 0.3) != in_fraction(f"Name {i}", 0.3) for i in range(40))


@pytest.mark.parametrize(("source", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_languages_that_cannot_be_used_are_refused(source, options, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        source(**options).read()


@pytest.mark.parametrize("name", SAME_IN_EVERY_PROCESS)
def test_too_few_emoji_are_refused(name, monkeypatch):
    source = SAME_IN_EVERY_PROCESS[name]
    monkeypatch.setattr(f"tfexp.data.source.{name}.emoji_names", lambda languages, key: {"😀": {"en": "x", "de": "y"}})
    with pytest.raises(DataError, match=rf"^data={name}: 1 (emoji|names) are too few to split$"):
        source().read()


@pytest.mark.parametrize("name", SAME_IN_EVERY_PROCESS)
def test_every_process_reads_the_same(name):
    source = SAME_IN_EVERY_PROCESS[name]
    code = PRINT.format(name, source.__name__)
    printed = {python_process(code, PYTHONHASHSEED=seed) for seed in ("0", "12345")}
    assert printed == {source().read().fingerprint()}
    assert printed != {source(val_fraction=0.3).read().fingerprint()}


def test_fractions_hold_each_other():
    parts = [set(EmojiNames(val_fraction=fraction).read().val) for fraction in (0.1, 0.2, 0.5)]
    assert all(small < large for small, large in pairwise(parts))
