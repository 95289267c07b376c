"""How fast text becomes ids, and batches; and the loader's share of a small training step.

    python benchmarks/data.py [--rounds N] [--megabytes N]

Text is the source of the running Python. Each tokenizer is trained once and encodes the same text; a loader's
figure is the time to make one batch, beside the step of the model that reads it, in turns within one run. The model
is the small one of train_step.py: 4 layers, width 128; 12 rows of 64 tokens.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from train_step import SIZES

from tfexp.config.compose import compose
from tfexp.config.freeze import freeze, to_plain
from tfexp.data.encoded import encode_part, labels_of, training_texts
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.data.tokenization import Tokenizer
from tfexp.model.build import build_model
from tfexp.model.spec import ModelSpec
from tfexp.registry import check_choice, create, names
from tfexp.tasks.base import Task

TASKS = {
    "next_token": ["model=small"],
    "masked_lm": ["task=masked_lm", "data=python_stdlib"],
    "classification": ["task=classification"],
    "translation": ["task=translation"],
}
SMALL = SIZES["small"]
COMMON = [f"model.d_model={SMALL.d_model}", f"model.n_layers={SMALL.n_layers}", "model.max_seq_len=64",
          "data.seq_len=64", f"data.batch_size={SMALL.batch_size}", "data.batch_tokens=null"]  # fmt: skip


def milliseconds(call: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return 1000 * (time.perf_counter() - start) / times


def stdlib(megabytes: float) -> tuple[str, ...]:
    documents, size = [], 0
    for document in create("data", check_choice("data", "python_stdlib", "data"), {}).read().train:
        if size > megabytes * 2**20:
            break
        documents.append(document)
        size += len(document.encode())
    return tuple(documents)


def tokenizing(megabytes: float, rounds: int) -> None:
    documents = stdlib(megabytes)
    n_bytes = sum(len(document.encode()) for document in documents)
    print(f"{'tokenizer':<12}{'train':>10}{'encode':>14}{'tokens':>16}")
    for name in names("tokenizer"):
        if name == "file":  # trains nothing, and encodes as the tokenizer in it does
            continue
        recipe = create("tokenizer", check_choice("tokenizer", name, "data.tokenizer"), {})
        start = time.perf_counter()
        tokenizer = Tokenizer(recipe.train(documents))
        trained = time.perf_counter() - start
        n_tokens = sum(len(ids) for ids in recipe.encode(tokenizer, documents))
        times = [milliseconds(lambda r=recipe, t=tokenizer: r.encode(t, documents), 1) for _ in range(rounds)]
        seconds = statistics.median(times) / 1000
        print(f"{name:<12}{trained:8.2f} s{n_bytes / 2**20 / seconds:9.1f} MB/s{n_tokens / seconds / 1e6:9.2f} M tok/s")


def loading(rounds: int) -> None:
    print(f"\n{'task':<16}{'batch':>10}{'step':>12}{'loader / step':>16}")
    for name, overrides in TASKS.items():
        config = compose(*overrides, *COMMON)
        plain = to_plain(config)
        data = prepared(plain)
        plain["model"] |= {"vocab_size": data.tokenizer.vocab_size, "n_labels": len(data.labels) or None}
        config = freeze(plain)
        task: Task = create("task", plain["task"], {})
        batches = task.train_batches(data, DataSpec.from_node(plain["data"]), 0)
        model = build_model(ModelSpec.from_config(to_plain(config)["model"]))
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        made = [batches[k] for k in range(50)]

        def step(
            batch: Any, model: Any = model, task: Task = task, optimizer: Any = optimizer, config: Any = config
        ) -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=config.trainer.precision == "bf16-mixed"):
                loss = task.loss(model, batch)
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()

        loader, steps = [], []
        for _ in range(rounds):
            loader.append(milliseconds(lambda b=batches: [b[k] for k in range(50)], 1) / 50)
            steps.append(milliseconds(lambda m=made, s=step: [s(batch) for batch in m], 1) / 50)
        share = statistics.median(one / other for one, other in zip(loader, steps, strict=True))
        print(f"{name:<16}{statistics.median(loader):7.3f} ms{statistics.median(steps):9.2f} ms{100 * share:14.1f} %")


def prepared(plain: dict[str, Any]) -> PreparedData:
    """The data of a config, encoded in memory."""
    corpus = create("data", plain["data"], {}).read()
    recipe = create("tokenizer", plain["data"]["tokenizer"], {})
    tokenizer, labels = Tokenizer(recipe.train(training_texts(corpus.train))), labels_of(corpus)
    parts = {name: encode_part(name, rows, recipe, tokenizer, labels) for name, rows in corpus.parts().items() if rows}
    return PreparedData(tokenizer, parts, labels, "benchmark", {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=4)
    options = parser.parse_args()
    tokenizing(options.megabytes, options.rounds)
    loading(options.rounds)


if __name__ == "__main__":
    main()
