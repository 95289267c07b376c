"""What a run ran on: device, versions, code, memory, and how fast the machine multiplies matrices."""

import os
import platform
import resource
import subprocess
import sys
import time
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import tfexp
from tfexp.config.hardware import cpu_model

LIBRARIES = ("torch", "pytorch-lightning", "hydra-core", "omegaconf", "tokenizers", "numpy")


def versions() -> dict[str, str]:
    """Versions of what can change a result."""
    found = {"tfexp": tfexp.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{cpu_model()}, {torch.get_num_threads()} threads"


def git_commit() -> str | None:
    """The commit of the code that runs, with `+` behind it if there are changes; None outside git."""
    folder = Path(tfexp.__file__).resolve().parent
    try:
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # in a checkout of tfexp, not just below some other
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--", str(folder), str(folder.parent / "conf"))
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def reset_peak_memory() -> None:
    """Let the peak count from here on: a process may train several runs, one after another."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return  # not Linux: the peak is then that of the process since its start


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory in use since `reset_peak_memory`: of the GPU if there is one, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@lru_cache(maxsize=8)
def matmul_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of one large matrix product here: the peak that utilisation refers to."""
    size = 1024 if device.type == "cpu" else 8192
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        (a @ b)[0, 0].item()  # waits for the device
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def record_of_machine(device: torch.device) -> dict[str, Any]:
    """What a summary says of the machine and the code."""
    return {
        "device": device_name(device),
        "host_cpus": os.cpu_count(),
        "versions": versions(),
        "git_commit": git_commit(),
        "peak_memory_bytes": peak_memory_bytes(device),
    }


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
