"""`tfexp evaluate RUN`: the best weights of a run, scored on every part."""

import json
import shlex

from tfexp.cli.arguments import Parser, show


def run(arguments: list[str]) -> int:
    parser = Parser("evaluate", "Score a run's weights on its validation and test parts, or on other data.")
    parser.add_argument("run", metavar="RUN", help="a run's folder, the start of its hash, or last")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="such as data.seq_len=256 or data.val=FILE"
    )
    parser.add_argument("--weights", choices=("best", "last"), default="best", help="default: best")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_outputs()
    options = parser.parse_intermixed_args(arguments)
    from tfexp.training.record import find_record
    from tfexp.training.reevaluate import reevaluate

    record = find_record(options.run, options.outputs)
    metrics = reevaluate(record, options.overrides, options.weights, show)
    if options.json:
        print(json.dumps({"run": str(record.folder), "weights": options.weights, "metrics": metrics}))
        return 0
    for name, value in metrics.items():
        print(f"{name:<22} {value:.6g}")
    show(f"{record.folder}, {options.weights} weights\nnext: {shlex.join(['tfexp', 'report', options.run])}")
    return 0
