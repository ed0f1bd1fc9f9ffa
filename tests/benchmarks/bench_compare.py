"""`make bench-compare`: how often intervals of dp_compare hold, how wide they are, and what a comparison takes.

Coverage is of 10,000 draws of the engine's own core; box and box_tight are valid and wide, so that theirs proves
nothing: the one that must be near its level is Fieller's of one group on a fine grid (specs/dpxplain.md §0.0).
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("tests", "tests/unit/explain", "scripts", "extension", "proxy", "tests/benchmarks")
sys.path[:0] = [str(ROOT / part) for part in PARTS]

import test_explain_vectors as vectors  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402

from fix_stack import stack_at_work  # noqa: E402
from pg_epsilon import noise  # noqa: E402
from pg_epsilon.explain.forms import Cell, Form, Halves, Linear, Noise  # noqa: E402
from pg_epsilon.explain.question import Question, compare  # noqa: E402
from pg_epsilon.mechanisms.additive import Additive, core  # noqa: E402

DRAWS = 10_000
PAIRS = 300
FLOOR, CEILING = 0.939, 0.961  # false alarm of 10,000 draws at .95: 2.2e-7 each
LOW, HIGH, CENTRE = 0, 100, 50
MEAN = 62
EQUAL = 7
Weights = tuple[Fraction, ...]
BY_RULE = vectors.test_each_simultaneous_rule_alone_is_that_of_the_slow_programme
BY_KIND = {
    "question": vectors.test_a_question_is_answered_as_by_the_slow_programme,
    "image": vectors.test_an_expression_is_bounded_as_by_the_slow_programme,
    "bootstrap": vectors.test_a_bootstrap_has_the_ends_of_the_slow_programme,
}


def additive(family: str, sensitivity: int, amount: str) -> Additive:
    """How one vector is noised: epsilon or rho is the amount."""
    if family == "laplace":
        return Additive(sensitivity, sensitivity**2, epsilon=Decimal(amount))
    return Additive(sensitivity, sensitivity**2, rho=Decimal(amount))


def counts(family: str, amount: str, exact: Sequence[int]) -> list[list[Form]]:
    """DRAWS releases of a count by groups."""
    how = additive(family, 1, amount)
    drawn = [core([value] * DRAWS, how, noise.current(), "bench") for value in exact]
    return [[Linear(Cell(value, Noise.of(how))) for value in draw] for draw in zip(*drawn, strict=True)]


def averages(family: str, amount: str, rows: Sequence[int], grid: int = 1) -> list[list[Form]]:
    """DRAWS releases of an average of MEAN by groups of so many rows; grid: steps in a unit of the value."""
    total, count = additive(family, (HIGH - CENTRE) * grid, amount), additive(family, 1, amount)
    sums = [core([n * (MEAN - CENTRE) * grid] * DRAWS, total, noise.current(), "bench") for n in rows]
    sizes = [core([n] * DRAWS, count, noise.current(), "bench") for n in rows]
    ends = (LOW * grid, HIGH * grid, CENTRE * grid)
    return [
        [
            Halves(Cell(s, Noise.of(total)), Cell(n, Noise.of(count)), Fraction(1, grid), *ends)
            for s, n in zip(sums_, sizes_, strict=True)
        ]
        for sums_, sizes_ in zip(zip(*sums, strict=True), zip(*sizes, strict=True), strict=True)
    ]


def weights(*numbers: str) -> Weights:
    return tuple(map(Fraction, numbers))


def holds(asked: tuple[list[Form], Weights, str, Fraction]) -> bool:
    forms, by, method, true = asked
    found = compare(Question(tuple(forms), by, method=method))
    return found.low <= float(true) <= found.high


def all_pairs_hold(forms: list[Form]) -> bool:
    """Of equal groups named after looking: no pair is told apart."""
    found = []
    for pair in itertools.combinations(forms, 2):
        difference = abs(_shown(pair[0]) - _shown(pair[1]))
        found.append((difference, pair))
    found.sort(key=lambda one: -one[0])
    widest = 0.0
    for difference, pair in found:
        if difference < widest / 2:  # the interval of a nearer pair is not half as wide
            return True
        interval = compare(Question(pair, simultaneous=EQUAL))
        if not interval.low <= 0 <= interval.high:
            return False
        widest = max(widest, (interval.high - interval.low) / 2)
    return True


def _shown(form: Form) -> float:
    if isinstance(form, Linear):
        return float(form.cell.value * form.step)
    assert isinstance(form, Halves)
    return float(form.total.value) / max(float(form.count.value), 1.0)


def share(check: Callable[..., bool], asked: Sequence[object]) -> float:
    with multiprocessing.Pool() as pool:
        return sum(pool.imap_unordered(check, asked, chunksize=250)) / len(asked)


def covers(metric: str, releases: list[list[Form]], by: Weights, method: str, true: Fraction) -> Row:
    found = share(holds, [(forms, by, method, true) for forms in releases])
    return row(f"coverage:{metric}", found, 0.95, f"of {DRAWS} draws of core; at least {FLOOR}")


def coverage() -> list[Row]:
    pair, three = weights("1", "-1"), weights("1", "-0.5", "-0.5")
    found = []
    for family, amount in (("gaussian", "0.02"), ("laplace", "0.2")):
        by_three = counts(family, amount, (500, 480, 90))
        found.append(covers(f"pair:count {family}", [forms[:2] for forms in by_three], pair, "auto", Fraction(20)))
        found.append(covers(f"weights:count {family}", by_three, three, "auto", Fraction(215)))
        released = averages(family, amount, (400, 700))
        for method in ("box", "box_tight", "fieller", *(["joint"] if family == "gaussian" else [])):
            found.append(covers(f"{method}:avg {family}", released, pair, method, Fraction(0)))
    fine = [forms[:1] for forms in averages("gaussian", "0.02", (400,), grid=1000)]
    one = covers("fieller:one group, fine grid", fine, weights("1"), "fieller", Fraction(MEAN))
    found.append({**one, "note": f"of {DRAWS} draws of core; {FLOOR} to {CEILING}"})
    for family, amount in (("gaussian", "0.02"), ("laplace", "0.2")):
        equal = {
            "count": counts(family, amount, (500,) * EQUAL),
            "avg": averages(family, amount, (400,) * EQUAL),
        }
        for form, releases in equal.items():
            told = f"{EQUAL} equal groups, no pair told apart; at least {FLOOR}"
            found.append(row(f"coverage:simultaneous:{form} {family}", share(all_pairs_hold, releases), 0.95, told))
    return found


def width(question: Question) -> float:
    found = compare(question)
    return found.high - found.low


def exact_average(rows: int, rho: str) -> Halves:
    total, count = (Noise.of(additive("gaussian", size, rho)) for size in (HIGH - CENTRE, 1))
    return Halves(Cell(rows * (MEAN - CENTRE), total), Cell(rows, count), Fraction(1), LOW, HIGH, CENTRE)


def widths() -> list[Row]:
    """At the paper's price of a half, rho = .05, and at the released values that noise of 0 would give."""
    ratios = []
    for rows in (37, 100, 1000, 10_000):
        pair = (exact_average(rows, "0.05"), exact_average(rows, "0.05"))
        ratios.append((width(Question(pair, method="fieller")) / width(Question(pair, method="box")), rows))
    fieller = max(ratios)
    found = [row("width:fieller", fieller[0], 1, f"over box, widest at {fieller[1]} rows of 37 to 10,000; at most .85")]
    ratios = []
    for groups in (2, 3, 5, 7, 10, 20, 50):
        pair = (exact_average(1000, "0.05"), exact_average(1000, "0.05"))
        asked = (Question(pair, method=method, simultaneous=groups) for method in ("joint", "fieller"))
        joint, by_group = map(width, asked)
        ratios.append((joint / by_group, groups))
    worst = max(ratios)
    note = f"over Fieller at Bonferroni's level, widest at {worst[1]} groups of 2 to 50; at most .88"
    return [*found, row("width:joint", worst[0], 1, note)]


def milliseconds() -> Row:
    """A comparison through the proxy beside a count that was answered before."""
    with stack_at_work() as stack, stack.connect("alice") as alice:
        alice.execute("SET dp.epsilon = 0.5")
        alice.execute("SELECT sex, count(*), avg(age) FROM people GROUP BY sex")

        def compared() -> None:
            alice.execute("SELECT * FROM dp_compare('f', 'm', aggregate => 2)").fetchall()

        def counted() -> None:
            alice.execute("SELECT * FROM dp_count('people', epsilon => 0.1)").fetchall()

        ours, cached, ratio = paired(compared, counted, PAIRS)
    return row("compare_ms", 1000 * ours, 1000 * cached, "beside a cached dp_count, medians; at most 1.5", ratio)


def same_numbers() -> Row:
    """Cases of the slow programme that come out alike."""
    passed = 0
    for name, case in vectors.CASES.items():
        kind, number = case["input"]["kind"], name[:3]
        check, argument = (BY_RULE, number) if number in vectors.BY_RULE else (BY_KIND[kind], name)
        try:
            check(argument)
            passed += 1
        except AssertionError as error:
            print(f"{name}: {error}", file=sys.stderr)
    return row("vectors", passed, len(vectors.CASES), "of V31 to V56")


def main() -> None:
    publish("compare", [same_numbers(), *widths(), milliseconds(), *coverage()])


if __name__ == "__main__":
    main()
