"""`tfexp show SLOT/NAME`: one component, as its author states it."""

import json

from tfexp.cli.arguments import Parser
from tfexp.errors import ConfigError


def run(arguments: list[str]) -> int:
    parser = Parser("show", "One component: docstring, keys, defaults, file, what it needs and gives.")
    parser.add_argument("component", metavar="SLOT/NAME", help="such as position/rope")
    parser.add_argument("--plugins", nargs="*", default=[], metavar="MODULE", help="modules or .py files to import")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_intermixed_args(arguments)
    from tfexp.registry import discover, resolve
    from tfexp.registry_view import details, keys_table
    from tfexp.slots import SLOTS

    discover(options.plugins)
    # `model/position/rope`, as the config group is written, means position/rope.
    slot, slash, name = options.component.removeprefix("model/").rpartition("/")
    if not slash:
        raise ConfigError(f"{options.component}: expected SLOT/NAME, such as position/rope")
    component = resolve(slot.rpartition("/")[2], name)
    shown = details(component)
    if options.json:
        print(json.dumps(shown, indent=2))
        return 0
    print(f"{component.slot}/{component.name}   choose with: {SLOTS[component.slot].group}={component.name}\n")
    print(shown["docstring"])
    print("\nKeys:")
    print(keys_table(component) or "  none")
    print(f"\nNeeds: {', '.join(shown['needs']) or 'nothing'}\nGives: {', '.join(shown['gives']) or 'nothing'}")
    print(f"File:  {shown['file']}")
    return 0
