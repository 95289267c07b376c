"""Logits over classes."""

from typing import Annotated

from torch import Tensor, nn

from tfexp.components.base import Head, Linear
from tfexp.components.dropout import Dropout
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range


@register("head", "classification", gives={"sequence_logits"})
class ClassificationHead(Head):
    """logits = W h + b from the pooled vector h of a sequence, one score per class.

    With `hidden`, a dense layer and a tanh come first, as in BERT and RoBERTa.

    Args:
        d_model: Width D.
        n_labels: Classes C.
        hidden: Put tanh(W_h h + b_h) before the scores.
        dropout: Rate on what the last map reads.
        bias: Biases in both maps.

    Shapes:
        (B, D) -> (B, C). D C + C parameters, D^2 + D more with `hidden`.

    Source: Devlin et al., 2019, arXiv:1810.04805, section 4.1.
    """

    def __init__(
        self,
        d_model: int,
        n_labels: int,
        *,
        hidden: bool = False,
        dropout: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.hidden = nn.Sequential(Linear(d_model, d_model, bias), nn.Tanh()) if hidden else nn.Identity()
        self.dropout = Dropout(dropout)
        self.project = Linear(d_model, n_labels, bias, role="logits")

    def tie(self, weight: nn.Parameter) -> None:
        raise ConfigError("model.tie_embeddings: head=classification scores classes, not tokens; set it to false")

    def forward(self, hidden: Tensor) -> Tensor:
        return self.project(self.dropout(self.hidden(hidden)))
