"""A short causal convolution over tokens, one filter for each channel."""

import torch
from torch import Tensor, nn

from tfexp.components.base import AttentionContext


class ShortConvolution(nn.Module):
    """Mix each channel with its last few values: y_t = sum_(o < width) w_o x_(t-o).

    Values before the row's or the document's beginning count as zero, and padded tokens are skipped as if
    they were not there.

    Args:
        channels: Filters.
        width: Taps of a filter, the token's own value included. Usual: 4.

    Shapes:
        x (B, T, C), earlier (B, width - 1, C) -> (B, T, C), (B, width - 1, C). C width parameters.

    Source: Yang et al., 2024, arXiv:2406.06484, section 3.4; after Fu et al., 2023, arXiv:2212.14052.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(channels, width))  # the token's own tap first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within 1 / sqrt(width), as torch's convolutions."""
        nn.init.uniform_(self.weight, -(self.width**-0.5), self.width**-0.5)

    def forward(self, x: Tensor, context: AttentionContext, earlier: Tensor | None) -> Tensor:
        """The mixed values.

        Args:
            x: (B, T, C), new tokens.
            context: Says which of them are real and where documents start.
            earlier: What `last_inputs` gave before them; None = there were none.
        """
        starts = None if context.starts is None else context.starts.expand(x.shape[:2])
        if context.real is None:
            return self._filtered(self._with_earlier(x, earlier), starts)
        order = _real_first(context.real)
        starts = None if starts is None else _moved(starts, order)
        out = self._filtered(self._with_earlier(_taken(x, order), earlier), starts)
        return _taken(out, order.argsort(dim=1))

    def last_inputs(self, x: Tensor, context: AttentionContext, earlier: Tensor | None) -> Tensor:
        """The last width - 1 inputs of each row, padding left out: (B, width - 1, C); arguments as above."""
        if context.real is None:
            return self._with_earlier(x, earlier)[:, x.shape[1] :]
        inputs = self._with_earlier(_taken(x, _real_first(context.real)), earlier)
        end = context.real.sum(dim=1, keepdim=True)  # (B, 1)
        return _taken(inputs, end + torch.arange(self.width - 1, device=x.device))

    def _with_earlier(self, x: Tensor, earlier: Tensor | None) -> Tensor:
        """(B, width - 1 + T, C)."""
        if earlier is None:
            earlier = x.new_zeros(len(x), self.width - 1, x.shape[-1])
        return torch.cat((earlier, x), dim=1)

    def _filtered(self, inputs: Tensor, starts: Tensor | None) -> Tensor:
        back, weight = self.width - 1, self.weight.to(inputs.dtype)
        n_tokens = inputs.shape[1] - back
        document = None
        if starts is not None:
            document = starts.cumsum(dim=1)  # (B, T); what came earlier belongs to the first
            document = torch.cat((document.new_zeros(len(inputs), back), document), dim=1).unsqueeze(-1)
        out = inputs[:, back:] * weight[:, 0]
        for offset in range(1, self.width):
            taps = inputs.narrow(1, back - offset, n_tokens)
            if document is not None:
                taps = taps * (document.narrow(1, back - offset, n_tokens) == document[:, back:])
            out = out + taps * weight[:, offset]
        return out


def _real_first(real: Tensor) -> Tensor:
    """An order (B, T) in which real tokens come first and stay in order."""
    return real.logical_not().sort(dim=1, stable=True).indices


def _taken(x: Tensor, places: Tensor) -> Tensor:
    return x.take_along_dim(places.unsqueeze(-1), dim=1)


def _moved(starts: Tensor, order: Tensor) -> Tensor:
    """Starts in the new order; where a document starts with padding, its first real token is the start."""
    document = starts.cumsum(dim=1).take_along_dim(order, dim=1)
    return document.diff(dim=1, prepend=torch.zeros_like(document[:, :1])) > 0
