"""`tfexp summary`: every operation of a model with its shape, parameters and FLOPs."""

import json

from tfexp.cli.arguments import Parser, show


def run(arguments: list[str]) -> int:
    parser = Parser("summary", "The operations of one forward pass, in order, with shapes, parameters and FLOPs.")
    parser.add_overrides()
    parser.add_argument("--batch", type=int, default=2, metavar="B", help="sequences in the batch (default: 2)")
    parser.add_argument("--length", type=int, metavar="T", help="tokens per sequence (default: the model's longest)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_intermixed_args(arguments)
    from tfexp.config.compose import compose
    from tfexp.config.freeze import to_plain
    from tfexp.model.spec import ModelSpec
    from tfexp.model.summary import summarise, summary_table

    spec = ModelSpec.from_config(to_plain(compose(*options.overrides, config_dir=options.config_dir))["model"])
    summary = summarise(spec, options.batch, options.length)
    if options.json:
        print(json.dumps(summary.as_dict(), indent=2))
        return 0
    from rich.console import Console

    Console().print(summary_table(summary))
    show(f"next: tfexp show attention/{spec.attention['name']}")
    return 0
