"""`tfexp list [SLOT]`: what is registered."""

import json

from tfexp.cli.arguments import Parser


def run(arguments: list[str]) -> int:
    parser = Parser("list", "Registered components, by slot.")
    parser.add_argument("slot", nargs="?", help="only this slot")
    parser.add_argument("--plugins", nargs="*", default=[], metavar="MODULE", help="modules or .py files to import")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_intermixed_args(arguments)
    from tfexp.registry import discover, known_slot
    from tfexp.registry_view import one_line, rows
    from tfexp.slots import SLOTS

    discover(options.plugins)
    slots = [known_slot(options.slot)] if options.slot else list(SLOTS)
    if options.json:
        print(json.dumps({slot: rows(slot) for slot in slots}, indent=2))
        return 0
    for slot in slots:
        print(f"\n{slot}  ({SLOTS[slot].purpose}; {SLOTS[slot].group}=...)")
        for row in rows(slot):
            print(f"  {row['name']:<14} {one_line(row['summary'], 96)}")
    print("\nnext: tfexp show SLOT/NAME")
    return 0
