"""`make bench-seam`: what a new kind of question touches, and what the seam costs every question.

Against the commit before its first slice: that tree, in a cluster of its own, asked in turn with ours.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

from older import tree_of  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402

from fix_cluster import private_cluster, standard  # noqa: E402
from fix_echo import echo_tree, foreign_files  # noqa: E402
from fix_ledger import Connection  # noqa: E402

BEFORE = "6788cd7"
PAIRS = 300
FOREIGN, RATIO = 2, 1.05
QUESTIONS = {
    "dp_count_ratio": "SELECT dp.dp_count('people', 'age > 40', fresh => true, epsilon => 0.0001)",
    "group_by_ratio": "SELECT dp.dp_group_by('people', '{sex,city}', '{sum(age)}', fresh => true, epsilon => 0.0001)",
    "cached_ratio": "SELECT dp.dp_count('people', 'age > 41', epsilon => 0.001)",
}


def foreign() -> Row:
    with echo_tree() as paths:
        found = foreign_files(paths.root)
    return row("new_kind_foreign_files", len(found), FOREIGN, f"the baseline is the limit; {', '.join(found)}")


def costs() -> list[Row]:
    rows = []
    with private_cluster() as ours, private_cluster(paths=tree_of(BEFORE)) as before:
        standard(ours)
        standard(before)
        with ours.connect("alice") as now, before.connect("alice") as then:
            for metric, question in QUESTIONS.items():
                new, old, ratio = paired(partial(now.execute, question), partial(then.execute, question), PAIRS)
                note = f"ms; median ratio of {PAIRS} pairs with {BEFORE}; target {RATIO}"
                rows.append(row(metric, 1000 * new, 1000 * old, note, ratio))
        with ours.connect() as root:
            rows.append(_stored(root))
    return rows


def _stored(root: Connection) -> Row:
    """What is stored of the grouped release so that it can be shown again, beside its integers."""
    size = "octet_length((r.answer -> '{}')::text)".format
    found = root.execute(
        f"SELECT {size('presentation')}, {size('raw')} FROM dp.release r JOIN dp.ledger l USING (request_id)"
        " WHERE l.call = 'dp_group_by' LIMIT 1"
    ).fetchone()
    assert found is not None
    return row("presentation_bytes", *found, "bytes of JSON, 12 groups of one sum; the baseline is the integers")


def main() -> None:
    publish("seam", [foreign(), *costs()])


if __name__ == "__main__":
    main()
