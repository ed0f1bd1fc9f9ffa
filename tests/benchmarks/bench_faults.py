"""`make bench-faults`: five minutes of crash campaign, brute force on linear programs, the price of planning first.

FAULTS_SECONDS=40 FAULTS_PROGRAMS=1000 make bench-faults: a shorter look. Ends with 1 where a promise did not hold.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("tests", "scripts", "extension", "proxy", "tests/benchmarks", "tests/crash")
sys.path[:0] = [str(ROOT / part) for part in PARTS]

from faults_campaign import CLIENTS, Outcome, campaign  # noqa: E402
from faults_lp import lp_failures  # noqa: E402
from faults_planning import plan_before_pay_ms  # noqa: E402
from faults_world import world  # noqa: E402
from report import Row, publish, row  # noqa: E402

from fix_cluster import private_cluster, standard  # noqa: E402

SECONDS = float(os.environ.get("FAULTS_SECONDS", "300"))
PROGRAMS = int(os.environ.get("FAULTS_PROGRAMS", "100000"))
PAUSE = 0.25  # seconds between faults at the mean
# What must be 0.
PROMISES = ("free_answers", "over_budget", "double_charged", "out_of_balance", "differing", "hangs", "lp_failures")


def campaign_rows(outcome: Outcome) -> list[Row]:
    """What the campaign counted; a violation's lines stand above the table."""
    books, verdict = outcome.books, outcome.verdict
    charged = sum(entry.kind == "charge" for entry in books.ledger)
    answers = f"of {len(books.heard)} answers"
    return [
        row("faults", outcome.faults, None, ", ".join(f"{kind} {n}" for kind, n in sorted(outcome.struck.items()))),
        row("answers", len(books.heard), None, f"to {len(books.asked)} questions, by {CLIENTS} clients"),
        row("failed_attempts", len(books.failed), None, "each asked again until it was answered"),
        row("charges", charged, None, f"{len(books.released)} releases, {len(books.owed)} still owed"),
        row("entitlements_honoured", outcome.honoured, None, "charged, failed, answered for the same charge"),
        row("given_up", len(outcome.given_up), None, "questions that a minute of asking did not answer"),
        row("free_answers", len(verdict.free_answers), None, f"{answers}; without a committed charge and a release"),
        row("over_budget", len(verdict.over_budget), None, f"accounts of {len(books.accounts)}"),
        row("double_charged", len(verdict.double_charged), None, f"questions of {len(books.asked)}"),
        row("out_of_balance", len(verdict.out_of_balance) + len(outcome.mismatches), None, "accounts against ledger"),
        row("differing", len(verdict.differing), None, "answers of one question, repeats at rest included"),
        row("hangs", len(outcome.hangs), None, "attempts of more than a minute"),
    ]


def main() -> int:
    with world() as stack:
        outcome = campaign(stack, SECONDS, pause=PAUSE, seed=11)
    print(outcome.summary())
    with private_cluster() as cluster:
        standard(cluster)
        planning = plan_before_pay_ms(cluster)
    failures = row("lp_failures", lp_failures(PROGRAMS)["failures"], None, f"of {PROGRAMS} linear programs")
    rows = [*campaign_rows(outcome), failures, planning]
    publish("faults", rows)
    return int(any(item["ours"] for item in rows if item["metric"] in PROMISES))


if __name__ == "__main__":
    sys.exit(main())
