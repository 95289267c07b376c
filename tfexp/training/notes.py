"""What a run should say of its data: what was too long, what was seen in training, what has no score."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfexp.data.buckets import EvalBuckets, TrainBuckets

PARTS = ("train", "val", "test")


def counts_of(part: str, batches: object) -> dict[str, int]:
    """What the record says of the examples of a part that are too long; nothing of blocks of tokens."""
    if not isinstance(batches, (TrainBuckets, EvalBuckets)):
        return {}
    examples = batches.examples
    return {f"{part}_overlong": examples.n_overlong, f"{part}_answers_cut": examples.n_answers_cut()}


def notes(counts: Mapping[str, Any], data: Mapping[str, Any], parts: Iterable[str] = PARTS) -> list[str]:
    """A line for each thing that makes numbers of a part mean less than they seem to.

    Args:
        counts: The node `data` of a summary, or a part of it.
        data: The node `data` of the config.
        parts: Which parts to speak of.
    """
    return [line for part in parts for line in (_of_lengths(part, counts, data), _of_overlap(part, counts)) if line]


def closing_notes(summary: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """The notes of a complete run: those of its data, and which classes a mean leaves out."""
    found = notes(summary["data"], data)
    for part, key in (("val", "details"), ("test", "test_details")):
        left_out = summary.get(key, {}).get("macro_f1_leaves_out", ())
        if left_out:
            n_labels = len(summary[key]["labels"])
            found.append(
                f"{part}: macro_f1 leaves out {len(left_out)} of {n_labels} classes, which neither occur there "
                f"nor are chosen: {_few(left_out)}"
            )
    return found


def _of_lengths(part: str, counts: Mapping[str, Any], data: Mapping[str, Any]) -> str | None:
    n_long, n_cut = counts.get(f"{part}_overlong", 0), counts.get(f"{part}_answers_cut", 0)
    if not n_long:
        return None
    what = "left out" if part == "train" and data["overlong"] == "drop" else "cut there"
    text = f"{part}: {_share(n_long, part, counts)} longer than data.seq_len={data['seq_len']} and {what}"
    if n_cut:
        # Nobody can say what was not asked: the loss of such a row is that of its beginning, or it has none.
        of_evaluation = "which counts as wrong and is not in the loss"
        text += f", {n_cut} of them in their answer" + (f", {of_evaluation}" if part != "train" else "")
    return f"{text}; raise it, and model.max_seq_len with it"


def _of_overlap(part: str, counts: Mapping[str, Any]) -> str | None:
    shared = counts.get(f"{part}_rows_in_train", 0)
    return f"{part}: {_share(shared, part, counts)} in the training part too" if shared else None


def _share(n: int, part: str, counts: Mapping[str, Any]) -> str:
    noun = "documents" if f"{part}_documents" in counts else "examples"
    total = counts.get(f"{part}_{noun}", n)
    return f"{'all ' if n == total > 1 else ''}{n} of {total} {noun} are"


def _few(names: Iterable[str], limit: int = 6) -> str:
    listed = list(names)
    return ", ".join(listed[:limit]) + (f" and {len(listed) - limit} more" if len(listed) > limit else "")
