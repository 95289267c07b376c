"""Any dataset of the Hugging Face hub, or one saved on disk."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tfexp.data.columns import Columns, Record, Roles, check_names, collect
from tfexp.data.corpus import Corpus, Source
from tfexp.data.parts import Place, ReadPart, assemble
from tfexp.errors import ConfigError, DataError, nearest
from tfexp.registry import register
from tfexp.schema import NO_EFFECT, Range

if TYPE_CHECKING:
    import datasets


@register("data", "hub")
class Hub(Source):
    """A dataset read by Hugging Face's `datasets`: by its name on the hub, or from a folder.

    Which columns are named decides what an example is: `text` and `label` a labelled text, `source` and
    `target` a pair, `text` alone a document. A dotted name goes into a nested column (`translation.de`).
    Numbers that the dataset has names for become these names. Code that comes with a dataset never runs.

    A text is a string, and null an empty one; a label may be a whole number.
    Texts of labelled rows and pairs lose white space at their ends. A row without text, source or target
    does not train, and the record counts it. Without `val`, rows validate by the hash of their text.

    Args:
        path: Name on the hub, a folder written by `save_to_disk`, or a folder of data files.
        config: Which of the dataset's configurations; null = the only one, or its default.
        revision: Branch, tag or commit on the hub; null = the newest.
        train: Name of the split that trains.
        val: Of the one that validates; null = split `train`.
        test: Of the one for testing; null = none.
        val_fraction: Share that is split off where `val` is null.
        text: Column of the text, or several that are joined by a space.
        label: Column of the label; a list is several labels.
        source: Column of what is given; a list is joined by spaces.
        target: Column of what it becomes; of a list, which holds several references, the first counts.
        label_separator: Between several labels in one column; null = one label a row.
        lowercase: Whether texts are lower-cased.
        limit: Rows of each split at most, evenly spread over it; null = all.
    """

    def __init__(
        self,
        *,
        path: Annotated[str, NO_EFFECT],
        config: Annotated[str | None, NO_EFFECT] = None,
        revision: Annotated[str | None, NO_EFFECT] = None,
        train: Annotated[str, NO_EFFECT] = "train",
        val: Annotated[str | None, NO_EFFECT] = "validation",
        test: Annotated[str | None, NO_EFFECT] = None,
        val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        text: Columns = None,
        label: Columns = None,
        source: Columns = None,
        target: Columns = None,
        label_separator: str | None = None,
        lowercase: bool = False,
        limit: Annotated[int | None, Range(ge=1)] = None,
    ) -> None:
        self.path, self.config, self.revision = path, config, revision
        self.train, self.val, self.test = train, val, test
        self.val_fraction, self.limit = val_fraction, limit
        self.roles = Roles(
            text=text, label=label, source=source, target=target, label_separator=label_separator, lowercase=lowercase
        )
        if self.roles.by_position:
            role, position = next((r, n) for r, n in self.roles.named() if isinstance(n, int))
            raise ConfigError(f"data.{role}: columns of a dataset have names, got the position {position}")
        self.kind = self.roles.kind

    def read(self) -> Corpus:
        with _quiet():
            splits = self._load()
            train = self._part("train", self.train, splits)
            val = None if self.val is None else self._part("val", self.val, splits)
            test = None if self.test is None else self._part("test", self.test, splits)
        return assemble(train, val, test, self.val_fraction)

    def _load(self) -> "dict[str, datasets.Dataset]":
        import datasets

        folder = Path(self.path).expanduser()
        saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
        for key, value in (("config", self.config), ("revision", self.revision)):
            if saved and value is not None:
                raise DataError(f"data.{key}: {self.path} was saved to disk and has none; set data.{key}=null")
        loaded: Any
        try:
            if saved:
                loaded = datasets.load_from_disk(str(folder))
            else:
                name = str(folder) if folder.is_dir() else self.path
                loaded = datasets.load_dataset(name, self.config, revision=self.revision)
        except Exception as error:  # of many libraries below, without a common class
            said = (str(error).strip().splitlines() or ["it does not say why"])[0]
            raise DataError(f"data.path: cannot load {self.path}: {type(error).__name__}: {said}") from error
        if isinstance(loaded, datasets.Dataset):  # saved alone, it is its only split
            return {str(loaded.split or "train"): loaded}
        return {str(name): split for name, split in loaded.items()}

    def _part(self, name: str, split: str, splits: "dict[str, datasets.Dataset]") -> ReadPart:
        if split not in splits:
            hint = nearest(split, splits, label="splits")
            more = " Set data.val=null to split some rows off." if name == "val" else ""
            raise DataError(f"data.{name}: {self.path} has no split '{split}'; {hint}{more}")
        check_names(self.roles, splits[split].column_names, f"split '{split}' of {self.path}")
        return collect(name, self._records(f"data.{name}", split, splits[split]), self.roles)

    def _records(self, key: str, split: str, rows: "datasets.Dataset") -> Iterator[tuple[Place, Record]]:
        columns = list(rows.column_names)
        wanted = {str(name) if name in columns else str(name).partition(".")[0] for _, name in self.roles.named()}
        rows = rows.select_columns([column for column in columns if column in wanted]).with_format(None)
        n_rows = len(rows)
        numbers = range(n_rows)
        if self.limit is not None and self.limit < n_rows:
            # Many sets are sorted by class: the first rows would be of one class alone.
            numbers = [i * n_rows // self.limit for i in range(self.limit)]
            rows = rows.select(numbers)
        for number, row in zip(numbers, rows, strict=True):
            place, record = Place(key, f"split '{split}' of {self.path}, row", number), dict(row)
            yield place, {name: _with_names(rows.features[name], value, place) for name, value in record.items()}


def _with_names(feature: Any, value: Any, place: Place) -> Any:
    """Class numbers as the names that the dataset gives them, also inside lists and nested columns."""
    if isinstance(value, list):
        inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
        return [_with_names(inner, item, place) for item in value]
    if isinstance(value, dict):
        # A list of nested columns is handed over as nested columns of lists, each of the inner feature.
        inner = feature if isinstance(feature, Mapping) else getattr(feature, "feature", {})
        return {name: _with_names(inner.get(name), item, place) for name, item in value.items()}
    if not hasattr(feature, "int2str") or value is None:
        return value
    if not 0 <= value < feature.num_classes:
        raise DataError(f"{place}: {value} is none of the {feature.num_classes} classes; is this split unlabelled?")
    return feature.int2str(value)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars, and nothing on standard output, which belongs to the command's own answer."""
    import datasets
    from datasets import config
    from huggingface_hub import utils as hub_utils

    switches = [library for library in (datasets, hub_utils) if not library.are_progress_bars_disabled()]
    for library in switches:
        library.disable_progress_bars()
    # Versions before 4 could be told by an environment variable to run a dataset's own code.
    setattr(config, "HF_DATASETS_TRUST_REMOTE_CODE", False)  # noqa: B010
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        for library in switches:
            library.enable_progress_bars()
