"""Probable tokens whose meaning is not yet there."""

from collections.abc import Generator, Sequence
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from tfexp.errors import ConfigError
from tfexp.generation.base import Answers, Call, Row, Strategy, Token
from tfexp.registry import register
from tfexp.schema import Range


@register("generation", "contrastive")
class Contrastive(Strategy):
    """Of the k most probable tokens, choose the one that is probable and unlike all that came before.

    (1 - alpha) p(v | x) - alpha max_j cos(h_v, h_x_j) is maximised over the k most probable v, where h
    are the last layer's states.

    Args:
        k: Candidates. Usual: 4 to 10.
        alpha: Weight of the degeneration penalty; 0 follows the most probable token. Usual: 0.6.

    Source: Su et al., 2022, arXiv:2202.06417, section 3.
    """

    def __init__(self, *, k: Annotated[int, Range(ge=1)] = 4, alpha: Annotated[float, Range(ge=0, le=1)] = 0.6) -> None:
        self.k, self.alpha = k, alpha

    def check(self, vocab_size: int) -> None:
        if self.k > vocab_size:
            raise ConfigError(f"generation.k: {self.k} is more than the vocabulary's {vocab_size} tokens")

    def run(self, call: Call) -> Generator[Token, None, Answers]:
        engine = call.engine
        logits = engine.start(call.prompts)
        rows = [Row(request, prompt) for request, prompt in enumerate(call.prompts)]
        past = _past(engine.hidden, call.prompts)  # (R, S, D)
        answers: Answers = [[] for _ in rows]
        while True:
            own = logits.log_softmax(dim=-1)
            chances = call.rules(logits, rows).softmax(dim=-1)  # (R, V)
            best, candidates = chances.topk(self.k, dim=-1)  # (R, k)
            n_rows = len(rows)
            engine.keep(torch.arange(n_rows, device=logits.device).repeat_interleave(self.k))
            following = engine.step(candidates.flatten())  # (R * k, V)
            states = functional.normalize(engine.hidden[:, -1].float(), dim=-1).view(n_rows, self.k, -1)  # (R, k, D)
            alike = (states @ past.transpose(1, 2)).amax(dim=-1)  # (R, k)
            worth = ((1 - self.alpha) * best - self.alpha * alike).where(best > 0, -torch.inf)
            choice = worth.argmax(dim=-1)  # (R,)
            tokens = candidates.gather(1, choice[:, None]).squeeze(1)
            logprobs = own.gather(1, tokens[:, None]).squeeze(1).tolist()
            going = []
            for place, (row, token) in enumerate(zip(rows, tokens.tolist(), strict=True)):
                row.new.append(token)
                row.logprobs.append(logprobs[place])
                reason = call.reason_to_end(row.new)
                if reason != "end":
                    yield Token(row.request, token)
                if reason is None:
                    going.append(place)
                else:
                    answers[row.request] = [row.finished(reason)]
            if not going:
                return answers
            kept = torch.tensor(going, device=tokens.device)
            chosen = kept * self.k + choice[kept]
            engine.keep(chosen)
            logits, rows = following[chosen], [rows[place] for place in going]
            past = torch.cat((past[kept], states[kept, choice[kept]][:, None]), dim=1)  # (R', S + 1, D)


def _past(hidden: Tensor, prompts: Sequence[Sequence[int]]) -> Tensor:
    """Directions (R, S, D) of the prompts' states; a shorter one, padded on the left, repeats its last."""
    directions = functional.normalize(hidden.float(), dim=-1)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=hidden.device)
    width = hidden.shape[1]
    real = torch.arange(width, device=hidden.device) >= width - lengths[:, None]  # (R, S)
    return directions.where(real[..., None], directions[:, -1:])  # no maximum changes
