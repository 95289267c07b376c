"""The rules of a call, in order."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tfexp.generation.base import Row, Rules
from tfexp.generation.rule.banned import Banned
from tfexp.generation.rule.frequency import FrequencyPenalty
from tfexp.generation.rule.length import Forced, MinLength
from tfexp.generation.rule.no_repeat import NoRepeat
from tfexp.generation.rule.repetition import RepetitionPenalty
from tfexp.generation.spec import GenerationSpec

Rule = Callable[[Tensor, Sequence[Row]], None]


def build_rules(
    spec: GenerationSpec,
    banned: Sequence[Sequence[int]],
    forced_start: Sequence[int],
    end: int | None,
    never: Sequence[int],
    max_new_tokens: int,
) -> Rules:
    """What is asked for, in transformers' order: penalties, n-grams, bans, least length, forced tokens.

    Args:
        spec: The keys.
        banned: Sequences of ids that never come in a row.
        forced_start: Ids that every text begins with.
        end: The end token, or None.
        never: Ids that are never said.
        max_new_tokens: Most new tokens.
    """
    rules: list[Rule] = []
    if spec.repetition_penalty != 1:
        rules.append(RepetitionPenalty(spec.repetition_penalty))
    if spec.frequency_penalty or spec.presence_penalty:
        rules.append(FrequencyPenalty(spec.frequency_penalty, spec.presence_penalty))
    if spec.no_repeat_ngram:
        rules.append(NoRepeat(spec.no_repeat_ngram))
    sequences = [*banned, *([token] for token in never)]
    if sequences:
        rules.append(Banned(sequences))
    if spec.min_new_tokens and end is not None:
        rules.append(MinLength(spec.min_new_tokens, end))
    if forced_start or spec.forced_end:
        rules.append(Forced(forced_start, end if spec.forced_end else None, max_new_tokens))
    return _InTurn(rules, end) if rules else _unchanged


def _unchanged(scores: Tensor, rows: Sequence[Row]) -> Tensor:
    return scores


class _InTurn:
    """Rules one after the other. Where they leave nothing to say, the text ends; without an end token they yield."""

    def __init__(self, rules: Sequence[Rule], end: int | None) -> None:
        self._rules, self._end = rules, end

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        before = scores.clone()
        for rule in self._rules:
            rule(scores, rows)
        stuck = scores.amax(dim=-1) == -torch.inf  # (R,)
        if bool(stuck.any()):
            if self._end is None:
                scores[stuck] = before[stuck]
            else:
                scores[stuck, self._end] = 0.0
        return scores
