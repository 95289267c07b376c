"""English names of emoji into other languages."""

from importlib.metadata import version
from typing import Annotated

from tfexp.data.corpus import Corpus, Pair, Source, split_by_name
from tfexp.data.emoji_table import check_languages, emoji_names
from tfexp.errors import ConfigError, DataError
from tfexp.registry import register
from tfexp.schema import Range

GERMAN = ["de"]


@register("data", "emoji_names")
class EmojiNames(Source):
    """Short translations that are always there: about 1,900 English names of emoji in each target language.

    With several target languages, the source begins with the one wanted: `<de> grinning face`, after
    Johnson et al. Names that validate never train, in any language or capitals.

    Args:
        targets: Codes of the emoji package: ar de es fa fr id it ja ko pt ru tr zh.
        val_fraction: Share of the English names that validate, chosen by a hash of each.

    Source: Unicode CLDR short names, by way of the Python package emoji; the token for the target language is
        that of Johnson et al. 2017, arXiv:1611.04558, section 3.
    Differs: the token is written `<de>`, not `<2de>`.
    """

    kind = "pairs"

    def __init__(self, *, targets: list[str] = GERMAN, val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1) -> None:
        check_languages(targets, "data.targets", at_least=1)
        if "en" in targets:
            raise ConfigError("data.targets: en is the language of the sources; name others")
        self.targets, self.val_fraction = targets, val_fraction

    def stamp(self) -> str:
        return version("emoji")

    def read(self) -> Corpus:
        table = emoji_names(["en", *self.targets], "data.targets").values()
        train, val = split_by_name(((names["en"].casefold(), names) for names in table), self.val_fraction)
        if not train or not val:
            raise DataError(f"data=emoji_names: {len(table)} names are too few to split")
        parts = [[self._pair(names, target) for names in part for target in self.targets] for part in (train, val)]
        return Corpus(tuple(parts[0]), tuple(parts[1]), report={"emoji_read": len(table)})

    def _pair(self, names: dict[str, str], target: str) -> Pair:
        tag = f"<{target}> " if len(self.targets) > 1 else ""
        return Pair(tag + names["en"], names[target])
