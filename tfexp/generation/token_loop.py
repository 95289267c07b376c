"""The loop of strategies that choose one token at a time: rows that finish leave the batch."""

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from tfexp.generation.base import Answers, Call, Row, Strategy, Token


class TokenStrategy(Strategy):
    """A strategy that chooses each token for itself."""

    def choose(self, scores: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """One token for each row.

        Args:
            scores: (R, V) float32 logits after the rules; -inf = must not be said.
            generators: The random stream of each row's request.

        Returns:
            (R,) int64.
        """
        raise NotImplementedError

    def run(self, call: Call) -> Generator[Token, None, Answers]:
        return (yield from write_rows(call, self, 1))


def write_rows(call: Call, strategy: TokenStrategy, n_copies: int) -> Generator[Token, None, Answers]:
    """Write `n_copies` texts for each request, side by side.

    A log-probability is the model's own: ln softmax of its logits, before rules and temperature. The copies
    of a request draw from its stream in turn: which draws a copy gets depends on when the others end, and
    on nothing else.
    """
    logits = call.engine.start(call.prompts)
    rows = [Row(request, prompt) for request, prompt in enumerate(call.prompts) for _ in range(n_copies)]
    if n_copies > 1:
        copies = torch.arange(len(call.prompts), device=logits.device).repeat_interleave(n_copies)
        call.engine.keep(copies)
        logits = logits[copies]
    answers: Answers = [[] for _ in call.prompts]
    while True:
        total = logits.logsumexp(dim=-1)  # (R,)
        own = logits.clone()
        scores = call.rules(logits, rows)
        tokens = strategy.choose(scores, [call.generators[row.request] for row in rows])  # (R,)
        logprobs = own.gather(1, tokens[:, None]).squeeze(1) - total
        going = []
        for place, (row, token, logprob) in enumerate(zip(rows, tokens.tolist(), logprobs.tolist(), strict=True)):
            row.new.append(token)
            row.logprobs.append(logprob)
            reason = call.reason_to_end(row.new)
            if reason != "end":
                yield Token(row.request, token)
            if reason is None:
                going.append(place)
            else:
                answers[row.request].append(row.finished(reason))
        if not going:
            return answers
        if len(going) < len(rows):  # no work is spent on what is finished
            kept = torch.tensor(going, device=tokens.device)
            call.engine.keep(kept)
            tokens, rows = tokens[kept], [rows[place] for place in going]
        logits = call.engine.step(tokens)
