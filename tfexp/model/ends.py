"""Special ids of a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ends:
    """Ids that begin, end and fill a text; None = the model has no such token.

    Args:
        begin: The first token that a decoder reads of a target, or of a document.
        end: Ends a text.
        pad: Fills up shorter rows.
        never: Ids that are never to be generated.
    """

    begin: int | None
    end: int | None
    pad: int | None
    never: tuple[int, ...] = ()
