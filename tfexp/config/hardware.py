"""What the processor and the GPU can do, as far as a config depends on it."""

import platform
from functools import lru_cache
from pathlib import Path

import torch


def has_bfloat16(accelerator: str) -> bool:
    """Whether the device that would be used computes in bfloat16 rather than emulating it."""
    if accelerator != "cpu" and torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    flags = cpu_flags()
    return "avx512_bf16" in flags or "amx_bf16" in flags


@lru_cache(maxsize=1)
def _cpu_info() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = [line.partition(":") for line in lines if ":" in line]
    return {key.strip(): value.strip() for key, _, value in reversed(pairs)}


def cpu_model() -> str:
    """The processor's name."""
    return _cpu_info().get("model name") or platform.processor() or platform.machine()


def cpu_flags() -> set[str]:
    """What the processor's kernel says that it can do, where it says so."""
    return set(_cpu_info().get("flags", "").split())
