"""Which language an emoji's name is in."""

from collections import Counter
from importlib.metadata import version
from typing import Annotated

from tfexp.data.corpus import Corpus, Labelled, Source, split_by_name
from tfexp.data.emoji_table import check_languages, emoji_names
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import Range

LATIN = ["de", "en", "es", "fr", "id", "it", "pt", "tr"]
"""The languages of the emoji package in Latin letters: other letters would give the answer away."""


@register("data", "emoji_language")
class EmojiLanguage(Source):
    """Short texts and their language, always there: about 1,900 emoji by their names in eight languages.

    Every language has every name, so the classes are balanced. An emoji's names are all on one side of the
    split. Some names are those of several languages ("panda"), which no classifier can tell apart; the
    record counts them as `rows_of_several_languages`.

    Args:
        languages: Codes of the emoji package: ar de en es fa fr id it ja ko pt ru tr zh.
        val_fraction: Share of the emoji that validate, chosen by a hash of each.

    Source: Unicode CLDR short names, by way of the Python package emoji.
    Differs: names are written in plain words, without colons and underscores.
    """

    kind = "labelled"

    def __init__(
        self, *, languages: list[str] = LATIN, val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.2
    ) -> None:
        check_languages(languages, "data.languages", at_least=2)
        self.languages, self.val_fraction = languages, val_fraction

    def stamp(self) -> str:
        return version("emoji")

    def read(self) -> Corpus:
        table = emoji_names(self.languages, "data.languages")
        train, val = split_by_name(table.items(), self.val_fraction)
        if not train or not val:
            raise DataError(f"data=emoji_language: {len(table)} emoji are too few to split")
        parts = [[Labelled(name, (lang,)) for names in part for lang, name in names.items()] for part in (train, val)]
        languages_of = Counter(text for text, _ in {row for part in parts for row in part})
        several = sum(languages_of[row.text] > 1 for part in parts for row in part)
        report = {"emoji_read": len(table), "rows_of_several_languages": several}
        return Corpus(tuple(parts[0]), tuple(parts[1]), report=report)
