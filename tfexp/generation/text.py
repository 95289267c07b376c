"""Tokens to text as they come: whole characters only, and nothing of a stop string."""

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]


class StopStrings:
    """Texts at which generation ends.

    Args:
        stops: The texts, none empty.
        decode: Ids to text.
    """

    def __init__(self, stops: Sequence[str], decode: Decode) -> None:
        self.stops, self._decode = stops, decode
        # A token is at least a byte of text, special ones apart: the end of the ids holds what is new.
        self._tail = max((len(stop.encode()) for stop in stops), default=0) + 8

    def __call__(self, ids: Sequence[int]) -> bool:
        """Whether the last tokens brought one."""
        if not self.stops:
            return False
        text = self._decode(ids[-self._tail :])
        return any(stop in text for stop in self.stops)

    def cut(self, text: str) -> str:
        """The text before the first of them."""
        return text[: min((place for stop in self.stops if (place := text.find(stop)) >= 0), default=len(text))]

    def certain(self, text: str) -> str:
        """The part of a growing text that no later character can turn into a stop string or its beginning."""
        text = self.cut(text)
        for length in range(min(len(text), max(map(len, self.stops), default=0)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self.stops):
                return text[:-length]
        return text


class TextStream:
    """The text of one request, piece by piece.

    Args:
        decode: Ids to text.
        stops: What ends it.
    """

    def __init__(self, decode: Decode, stops: StopStrings) -> None:
        self._decode, self._stops = decode, stops
        self._ids: list[int] = []
        self._shown = ""

    def add(self, token: int) -> str:
        """The text that this token made certain; a character may need more tokens."""
        self._ids.append(token)
        text = self._decode(self._ids)
        return "" if text.endswith("\ufffd") else self._show(self._stops.certain(text))

    def finish(self, text: str) -> str:
        """What is left of the whole text."""
        return self._show(text)

    def _show(self, text: str) -> str:
        piece, self._shown = text[len(self._shown) :], max(self._shown, text, key=len)
        return piece
