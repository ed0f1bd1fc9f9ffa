"""`make bench-right`: how many of 5,000 random expressions mean something else than in PostgreSQL; none may.

And how often fifty who ask one question at the same moment pay for it: once.
"""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

from report import publish, row  # noqa: E402

import fix_ledger  # noqa: E402
from fix_askers import ask_at_once  # noqa: E402
from fix_differential import compared, differential_bench  # noqa: E402
from fix_hostile import started_server  # noqa: E402
from fix_stack import stack_at_work  # noqa: E402

WANTED = 5000
ASKERS = 50


def charges_of_askers() -> int:
    """How many charges an unasked question cost, of fifty who asked it at once."""
    with stack_at_work(max_connections="250") as stack, stack.cluster.connect() as owner:
        ask_at_once(stack, ASKERS, "SELECT count(*) FROM people WHERE age > 40")
        return int(fix_ledger.one(owner, "SELECT count(*) FROM dp.ledger WHERE kind = 'charge'"))


def main() -> None:
    with contextmanager(started_server)() as server, differential_bench(server) as bench:
        found = compared(bench, random.Random(20261127), WANTED)
    wrong = [one for one in found if one.wrong]
    for one in wrong:
        print(f"{one.text}: {one.wrong}", file=sys.stderr)
    count = sum(one.verdict == "compared" for one in found)
    refused = sum(one.verdict == "refused" for one in found)
    publish(
        "right",
        [
            row("differential_wrong", len(wrong), None, f"of {count} expressions, row by row; must be 0"),
            row("differential_refused", refused, None, f"of {len(found)}, with a reason and a hint"),
            row("charges_of_50_askers", charges_of_askers(), None, "of one question at one moment; must be 1"),
        ],
    )


if __name__ == "__main__":
    main()
