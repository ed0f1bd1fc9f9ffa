"""`make bench-right`: how many of 5,000 random expressions mean something else than in PostgreSQL; none may."""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

from report import publish, row  # noqa: E402

from fix_differential import compared, differential_bench  # noqa: E402
from fix_hostile import started_server  # noqa: E402

WANTED = 5000


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
        ],
    )


if __name__ == "__main__":
    main()
