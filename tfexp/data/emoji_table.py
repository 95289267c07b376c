"""Names of emoji in many languages: the Unicode CLDR's, as the package `emoji` carries them."""

from collections.abc import Sequence

from tfexp.errors import ConfigError, nearest

SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F3FF + 1)))  # Unicode, UTS #51, section 2.4: modifiers


def check_languages(languages: Sequence[str], key: str, at_least: int) -> None:
    """Refuse too few languages, or one twice."""
    if len(languages) < at_least:
        raise ConfigError(f"{key}: name at least {at_least} of the emoji package's languages, got {len(languages)}")
    for language in languages:
        if languages.count(language) > 1:
            raise ConfigError(f"{key}: '{language}' is listed twice")


def emoji_names(languages: Sequence[str], key: str) -> dict[str, dict[str, str]]:
    """Emoji -> language -> name in plain words, of every emoji that has a name in all these languages.

    Variants in a skin tone, and codes that lack a variation selector, are names over again and left out.
    """
    import emoji

    for language in languages:
        if language not in emoji.LANGUAGES:
            hint = nearest(language, emoji.LANGUAGES, limit=20)
            raise ConfigError(f"{key}: the emoji package has no language '{language}'; {hint}")
    emoji.config.load_language(list(languages))
    table = {}
    for signs, entry in sorted(emoji.EMOJI_DATA.items()):
        complete = entry["status"] == emoji.STATUS["fully_qualified"] and all(map(entry.get, languages))
        if complete and SKIN_TONES.isdisjoint(signs):
            table[signs] = {language: plain_words(entry[language]) for language in languages}
    return table


def plain_words(name: str) -> str:
    """`:grinning_face:` -> `grinning face`."""
    return name.strip(":").replace("_", " ")
