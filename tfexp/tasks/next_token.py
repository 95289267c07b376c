"""Next-token prediction."""

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tfexp.batch import IGNORE, Batch
from tfexp.registry import register
from tfexp.tasks.base import LossSum, Task, count_scored, mean_metrics


@register("task", "next_token")
class NextToken(Task):
    """Predict every token from those before it.

    loss = -sum_t log p(x_t | x_<t) / number of scored tokens, in nats per token.

    Source: Bengio et al., 2003; Radford et al., 2018, section 3.1.
    """

    metric_names = ("loss", "perplexity", "bits_per_byte", "accuracy")

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        total, _ = self._forward(model, batch)
        return LossSum(total, count_scored(batch.labels, IGNORE))

    def score(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        total, logits = self._forward(model, batch)
        correct = (logits.argmax(dim=-1) == batch.labels).sum()  # an ignored label equals no class
        return {"loss": total, "count": count_scored(batch.labels, IGNORE), "correct": correct}

    def metrics(self, sums: dict[str, float], n_bytes: int) -> dict[str, float]:
        return {**mean_metrics(sums, n_bytes), "accuracy": sums["correct"] / max(sums["count"], 1.0)}

    def _forward(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        logits = model(batch.input_ids, batch.attention_mask, batch.position_ids).logits  # (B, T, V)
        flat = logits.flatten(0, 1).float()  # (B*T, V)
        return cross_entropy(flat, batch.labels.flatten(), ignore_index=IGNORE, reduction="sum"), logits
