import sys
from pathlib import Path

import datasets
import pytest

from tests.runs import python_process
from tfexp.data.corpus import Corpus, Labelled, Pair, in_fraction
from tfexp.data.source.hub import Hub
from tfexp.errors import ConfigError, DataError
from tfexp.registry import check_choice, create

FILMS = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
TEXT_LABEL = {"text": "text", "label": "label"}
WORDS = {"source": "translation.en", "target": "translation.de"}
REFUSED = {
    "column": ({"text": "txt"}, "data.text: split 'train' of {path} has no column 'txt'; did you mean 'text'?"),
    "train": ({"text": "text", "train": "trian"}, "data.train: {path} has no split 'trian'; did you mean 'train'?"),
    "val": (
        {"text": "text", "val": "dev"},
        "data.val: {path} has no split 'dev'; splits: test, train, validation. "
        "Set data.val=null to split some rows off.",
    ),
    "test": ({"text": "text", "test": "tset"}, "data.test: {path} has no split 'tset'; did you mean 'test'?"),
    "unlabelled": (
        {**TEXT_LABEL, "test": "test"},
        "data.test: split 'test' of {path}, row 0: -1 is none of the 2 classes; is this split unlabelled?",
    ),
    "config": (
        {"text": "text", "config": "a"},
        "data.config: {path} was saved to disk and has none; set data.config=null",
    ),
    "revision": (
        {"text": "text", "revision": "a"},
        "data.revision: {path} was saved to disk and has none; set data.revision=null",
    ),
}
PRINT = """
from tfexp.data.source.hub import Hub
source = Hub(path={!r}, val=None, text="text")
print(source.read().fingerprint())
"""


def read(path: Path, **options) -> Corpus:
    return create("data", check_choice("data", {"name": "hub", "path": str(path), **options}, "data"), {}).read()


def save(folder: Path, splits: dict[str, list[dict]], features: datasets.Features | None = None) -> Path:
    parts = {name: datasets.Dataset.from_list(rows, features=features) for name, rows in splits.items()}
    datasets.DatasetDict(parts).save_to_disk(str(folder))
    return folder


def films(folder: Path) -> Path:
    rows = [{"text": "good film", "label": 1}, {"text": "bad film ", "label": 0}, {"text": " ", "label": 0}]
    test = [{"text": "some film", "label": -1}]
    return save(folder / "films", {"train": rows, "validation": rows, "test": test}, FILMS)


def translations(folder: Path, n: int) -> Path:
    rows = [{"translation": {"en": f"word {i}", "de": f"Wort {i}"}, "id": i} for i in range(n)]
    return save(folder / "words", {"train": rows})


def test_class_numbers_become_their_names(tmp_path):
    corpus = read(films(tmp_path), **TEXT_LABEL)
    assert corpus.train == (Labelled("good film", ("pos",)), Labelled("bad film", ("neg",)))
    assert corpus.val == (*corpus.train, Labelled("", ("neg",)))
    counts = {"train": {"read": 3, "kept": 2, "empty": 1}, "val": {"read": 3, "kept": 3, "empty": 1}}
    assert corpus.report == {
        **{f"{part}_rows_{name}": n for part, by_name in counts.items() for name, n in by_name.items()},
        **{"train_rows_duplicate": 0, "val_rows_in_train": 2},
    }


def test_nested_columns_are_named_with_dots(tmp_path):
    path = translations(tmp_path, 60)
    corpus = read(path, val=None, **WORDS)
    pairs = [Pair(f"word {i}", f"Wort {i}") for i in range(60)]
    assert corpus.val == tuple(pair for pair in pairs if in_fraction("\n".join(pair), 0.1))
    assert sorted(corpus.train + corpus.val) == sorted(pairs)
    assert Hub(path="x", **WORDS).kind == corpus.kind == "pairs"
    with pytest.raises(DataError) as error:
        read(path, val=None, source="translation.en", target="translation.fr")
    assert str(error.value) == (
        f"data.target: split 'train' of {path}, row 0 has no column 'translation.fr'; did you mean 'translation.en'?"
    )


def test_lists_are_several_labels_or_references(tmp_path):
    names = datasets.ClassLabel(names=["x", "y"])
    strings = datasets.Value("string")
    features = datasets.Features(
        {"text": strings, "labels": [names], "answers": {"text": [strings], "kind": [names]}, "more": [{"kind": names}]}
    )
    row = {"text": "T", "labels": [1, 0], "answers": {"text": ["a", "b"], "kind": [0, 1]}, "more": [{"kind": 1}]}
    path = save(tmp_path / "lists", {"train": [row]}, features)
    options = {"val": "train", "lowercase": True}
    assert read(path, text="text", label="labels", **options).train == (Labelled("t", ("y", "x")),)
    assert read(path, text="text", label="answers.kind", **options).train == (Labelled("t", ("x", "y")),)
    corpus = read(path, source="text", target="answers.text", **options)
    assert corpus.train == (Pair("t", "a"),)
    assert corpus.report["val_rows_with_more_targets"] == 1


def test_a_limit_takes_rows_from_the_whole_split(tmp_path):
    path = save(tmp_path / "sorted", {"train": [{"text": f"t{i}", "label": i // 50} for i in range(100)]})
    corpus = read(path, val="train", limit=4, **TEXT_LABEL)
    assert corpus.train == tuple(Labelled(f"t{i}", (str(i // 50),)) for i in (0, 25, 50, 75))
    assert len(read(path, val="train", limit=1000, **TEXT_LABEL).train) == 100


def test_a_single_saved_dataset_is_its_only_split(tmp_path):
    datasets.Dataset.from_list([{"text": "a"}, {"text": "b"}]).save_to_disk(str(tmp_path / "one"))
    assert read(tmp_path / "one", val="train", text="text").train == ("a", "b")


def test_a_folder_of_data_files_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for split in ("train", "validation"):
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / f"{split}.jsonl").write_text(f'{{"text": "{split} text"}}\n', encoding="utf-8")
    corpus = read(tmp_path / "files", text="text")
    assert corpus.parts() == {"train": ("train text",), "val": ("validation text",), "test": ()}


def test_a_format_that_was_saved_with_a_dataset_changes_nothing(tmp_path):
    rows = datasets.Dataset.from_list([{"text": "a", "label": 1}]).with_format("numpy")
    datasets.DatasetDict({"train": rows}).save_to_disk(str(tmp_path / "numpy"))
    assert read(tmp_path / "numpy", val="train", **TEXT_LABEL).train == (Labelled("a", ("1",)),)


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_there_is_named(tmp_path, options, message):
    path = films(tmp_path)
    with pytest.raises(DataError) as error:
        read(path, **options)
    assert str(error.value) == message.format(path=path)


def test_positions_are_refused():
    with pytest.raises(ConfigError, match=r"^data\.text: columns of a dataset have names, got the position 0$"):
        Hub(path="x", text=0, label="@file")


def test_what_the_library_says_becomes_one_line(monkeypatch):
    def load_dataset(*arguments, **options):
        raise ValueError("first\nsecond")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DataError, match=r"^data\.path: cannot load owner/name: ValueError: first$"):
        read(Path("owner/name"), text="text")


def test_the_library_is_asked_for_what_was_named_and_runs_no_code(monkeypatch, capsys):
    asked = {}

    def load_dataset(path, config, **options):
        asked.update(path=path, config=config, code=datasets.config.HF_DATASETS_TRUST_REMOTE_CODE, **options)
        asked["quiet"] = datasets.are_progress_bars_disabled()
        print("loading", file=sys.stdout)
        return datasets.DatasetDict({"train": datasets.Dataset.from_list([{"text": "a"}])})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_TRUST_REMOTE_CODE", True, raising=False)
    datasets.enable_progress_bars()
    read(Path("owner/name"), config="c", revision="v1", val="train", text="text")
    assert asked == {"path": "owner/name", "config": "c", "revision": "v1", "code": False, "quiet": True}
    assert not datasets.are_progress_bars_disabled()
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "loading\n")


def test_every_process_reads_the_same(tmp_path):
    path = save(tmp_path / "texts", {"train": [{"text": f"text {i}"} for i in range(50)]})
    printed = {python_process(PRINT.format(str(path)), PYTHONHASHSEED="12345")}
    assert printed == {read(path, val=None, text="text").fingerprint()}
    other = save(tmp_path / "other", {"train": [{"text": f"text {i}"} for i in range(49)]})
    assert printed != {read(other, val=None, text="text").fingerprint()}
