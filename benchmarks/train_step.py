"""A training step of tfexp beside public peers of the same size and precision, as ratios of one run.

    python benchmarks/train_step.py [--sizes small large] [--precisions 32-true bf16-mixed] [--rounds N]

Every peer trains the same shape on the same batch with the same optimizer (fused AdamW), gradient clipping
and cross-entropy over the whole batch. Peers take turns, round by round, so that a drift of the machine's
speed meets all of them; a figure is the median over rounds. Absolute times say little on a shared machine,
ratios carry over.
"""

import argparse
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tfexp.model.build import build_model
from tfexp.model.count import count_parameters
from tfexp.model.spec import ModelSpec


@dataclass(frozen=True)
class Size:
    n_layers: int
    d_model: int
    n_heads: int
    seq_len: int
    batch_size: int
    steps: int  # in a round
    vocab_size: int = 65


SIZES = {
    "small": Size(n_layers=4, d_model=128, n_heads=4, seq_len=64, batch_size=12, steps=40),
    "large": Size(n_layers=6, d_model=384, n_heads=6, seq_len=256, batch_size=16, steps=2),
}


def tfexp_model(size: Size) -> nn.Module:
    """GPT-2's choices from tfexp's components."""
    node = {
        "d_model": size.d_model, "n_layers": size.n_layers, "n_heads": size.n_heads,
        "max_seq_len": size.seq_len, "vocab_size": size.vocab_size,
        "position": "learned", "norm_placement": "pre", "norm": "layernorm",
        "attention": {"name": "softmax", "bias": True},
        "feedforward": {"name": "mlp", "activation": "gelu_tanh", "bias": True},
    }  # fmt: skip
    return build_model(ModelSpec.from_config(node))


def transformers_model(size: Size) -> nn.Module:
    """GPT-2 of the transformers library, without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=size.vocab_size, n_positions=size.seq_len, n_embd=size.d_model, n_layer=size.n_layers,
        n_head=size.n_heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def x_transformers_model(size: Size) -> nn.Module:
    """A decoder of x-transformers with learned positions, flash attention where it has it."""
    from x_transformers import Decoder, TransformerWrapper

    return TransformerWrapper(
        num_tokens=size.vocab_size, max_seq_len=size.seq_len, tie_embedding=True,
        attn_layers=Decoder(
            dim=size.d_model, depth=size.n_layers, heads=size.n_heads,
            attn_dim_head=size.d_model // size.n_heads, attn_flash=True,
        ),
    )  # fmt: skip


PEERS: dict[str, Callable[[Size], nn.Module]] = {
    "tfexp": tfexp_model,
    "transformers": transformers_model,
    "x-transformers": x_transformers_model,
}


class Trainee:
    """One peer in a bare loop.

    Args:
        name: Of the peer.
        size: Of its model.
        precision: `32-true` or `bf16-mixed`.
    """

    def __init__(self, name: str, size: Size, precision: str) -> None:
        torch.manual_seed(0)
        self.model = PEERS[name](size).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        self.size, self.precision = size, precision
        tokens = torch.randint(0, size.vocab_size, (size.batch_size, size.seq_len + 1))
        self.inputs, self.labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        self.times: list[float] = []

    def step(self) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16-mixed"):
            output = self.model(self.inputs)
            logits: Tensor = output if isinstance(output, Tensor) else output.logits
            loss = cross_entropy(logits.flatten(0, 1).float(), self.labels.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()

    def round(self) -> None:
        self.step()  # brings its memory back into the caches
        start = time.perf_counter()
        for _ in range(self.size.steps):
            self.step()
        self.times.append((time.perf_counter() - start) / self.size.steps)

    @property
    def median_ms(self) -> float:
        return 1000 * statistics.median(self.times)


def compare(size_name: str, precision: str, rounds: int) -> None:
    """Print a row per peer: milliseconds a step, and how many times as fast tfexp is."""
    size = SIZES[size_name]
    trainees = {name: Trainee(name, size, precision) for name in PEERS}
    for trainee in trainees.values():
        trainee.step()
    for _ in range(rounds):
        for trainee in trainees.values():
            trainee.round()
    ours = trainees["tfexp"]
    print(f"\n{size_name}, {precision}: {size}", flush=True)
    for name, trainee in trainees.items():
        ratios = [other / mine for other, mine in zip(trainee.times, ours.times, strict=True)]
        millions = count_parameters(trainee.model).total / 1e6
        print(
            f"  {name:<16} {millions:6.2f} M  {trainee.median_ms:9.2f} ms/step  "
            f"tfexp is {statistics.median(ratios):.2f}x as fast ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--precisions", nargs="+", default=["32-true", "bf16-mixed"])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print(f"{torch.__version__}, {torch.get_num_threads()} threads, python {sys.version.split()[0]}")
    for size in options.sizes:
        for precision in options.precisions:
            compare(size, precision, options.rounds)


if __name__ == "__main__":
    main()
