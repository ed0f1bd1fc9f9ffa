"""`make bench-right`: how many of 5,000 random expressions mean something else than in PostgreSQL; none may.

And how many parameters one block may have, how often fifty who ask one question at the same moment pay for it,
and what right_cases.py tells.
"""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

import psycopg  # noqa: E402
import right_cases  # noqa: E402
from report import publish, row  # noqa: E402

import fix_ledger  # noqa: E402
from fix_askers import ask_at_once  # noqa: E402
from fix_differential import compared, differential_bench  # noqa: E402
from fix_hostile import started_server  # noqa: E402
from fix_stack import stack_at_work  # noqa: E402

WANTED = 5000
LISTS = (1_000, 10_000, 20_000)


def parameters_in_a_block() -> int:
    """The longest of LISTS that is answered as a list of parameters; 0 if none is."""
    answered = 0
    with stack_at_work() as stack:
        stack.cluster.psql((ROOT / "tests/fixtures/reports.sql").read_text(), user="boss")
        stack.cli("facade", "sync")
        for count in LISTS:
            sql = f"SELECT count(*) FROM shop WHERE qty IN ({', '.join(['%s'] * count)})"
            with stack.connect("alice") as session:
                try:
                    session.execute(sql, list(range(count)))
                except psycopg.Error as error:
                    print(f"{count} parameters: {error}", file=sys.stderr)
                    continue
            answered = count
    return answered


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
            row("parameters_in_a_block", parameters_in_a_block(), None, f"of {LISTS}, the longest list answered"),
            right_cases.cases(),
            right_cases.fold(),
            right_cases.halves(),
            row("charges_of_50_askers", charges_of_askers(), None, "of one question at one moment; must be 1"),
        ],
    )


if __name__ == "__main__":
    main()
