"""What attention layers of several kinds share: heads cut out of a width, and a norm over each of them."""

from typing import Any

from torch import Tensor, nn

from tfexp.errors import ConfigError
from tfexp.registry import check_choice, create


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (B, T, H*K) -> (B, H, T, K)


def merge_heads(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)  # (B, H, T, K) -> (B, T, H*K)


def head_norm(choice: Any, width: int, where: str = "qk_norm") -> nn.Module:
    """The chosen norm over vectors of this width; none where the choice is null."""
    if choice is None:
        return nn.Identity()
    return create("norm", check_choice("norm", choice, where), {"d_model": width})


def check_groups(n_heads: int, n_kv_heads: int) -> None:
    """Refuse key/value heads that do not serve equally many query heads each."""
    if n_heads % n_kv_heads:
        raise ConfigError(f"model.n_kv_heads: must divide n_heads={n_heads}, got {n_kv_heads}")
