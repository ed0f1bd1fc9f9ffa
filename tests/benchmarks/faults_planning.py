"""A metric of `make bench-faults`: what planning before paying adds to a paid count."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "tests/benchmarks")]

from report import Row, publish, row  # noqa: E402

from fix_cluster import Cluster, private_cluster, standard  # noqa: E402

PAIRS = 300
TARGET = 1.5
TIMED = """
CREATE FUNCTION public.timed(request jsonb, planned boolean) RETURNS float8 LANGUAGE plpython3u
SET row_security = off AS $$
import time, uuid
from pg_epsilon import entry
gate = entry._check_readable
try:
    if not planned:
        entry._check_readable = lambda plan: None
    entry.planning.forget()
    start = time.perf_counter()
    id = str(uuid.uuid4())
    reply = entry.charge(id, "alice", request)
    assert '"charged": true' in reply, reply
    assert '"answer"' in entry.answer(id)
    return 1000 * (time.perf_counter() - start)
finally:
    entry._check_readable = gate
$$;
"""


def plan_before_pay_ms(cluster: Cluster) -> Row:
    """Median milliseconds of a paid, grouped count with its statement planned before, and without; pairs of one run.

    cluster: with the standard tables. The policy's statements are warm; every statement is planned anew, which is the
    worst case: a backend plans a statement once under a policy.
    """
    with cluster.connect() as root, cluster.connect("alice") as alice:
        root.execute("DROP FUNCTION IF EXISTS public.timed; " + TIMED)
        asked = "SELECT dp.dp_group_by_request('people', '{sex}', '{count(*)}', epsilon => 0.000001, fresh => true)"
        (request,) = alice.execute(asked).fetchone() or (None,)
        text = json.dumps(request)

        def once(planned: bool) -> float:
            found: Any = root.execute("SELECT public.timed(%s, %s)", (text, planned)).fetchone()
            return float(found[0])

        for planned in (True, False) * 5:
            once(planned)
        pairs = [(once(True), once(False)) for _ in range(PAIRS)]
    added = statistics.median(with_ - without for with_, without in pairs)
    base = statistics.median(without for _, without in pairs)
    note = f"ms added at the median of {PAIRS} pairs; baseline: a paid count; target {TARGET}"
    return row("plan_before_pay_ms", added, base, note)


def main() -> None:
    """The metric alone: python tests/benchmarks/faults_planning.py"""
    with private_cluster() as cluster:
        standard(cluster)
        publish("faults_planning", [plan_before_pay_ms(cluster)])


if __name__ == "__main__":
    main()
