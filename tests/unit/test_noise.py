"""noise.py and the margins of its noise: ranges, saturation, realised loss, spec vectors, and that there is one
door."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fix_chance
import pg_epsilon
from pg_epsilon.accounting.margins import (
    SCALE_MAX,
    gaussian_margin,
    gaussian_scale,
    gaussian_tail,
    laplace_epsilon,
    laplace_margin,
    laplace_scale,
    laplace_tail,
)
from pg_epsilon.errors import DPError
from pg_epsilon.noise import LATTICE_MAX, LATTICE_MIN, current

PACKAGE = Path(pg_epsilon.__file__).parent
SOME = settings(database=None, deadline=None, max_examples=60)
EPSILONS = st.fractions(min_value=Fraction(1, 10**6), max_value=1000, max_denominator=10**9)


def run_python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True, timeout=240
    ).stdout


@pytest.mark.chance(fix_chance.union(fix_chance.laplace(1 / 1000, 0, 12), fix_chance.gaussian(2000**-0.5, 0, 12)))
def test_values_keep_their_places_at_any_size() -> None:
    """epsilon 1000: the noise is 0 except with probability 2e^-1000 a cell: exact up to the lattice's ends."""
    exact = [0, 1, -1, 2**53 + 1, 2**62, -(2**62), LATTICE_MAX, LATTICE_MIN, 2**63, -(2**63) - 1, 10**30, -(10**30)]
    clamped = [min(max(value, LATTICE_MIN), LATTICE_MAX) for value in exact]
    assert current().laplace(exact, l1_sensitivity=1, epsilon=1000, label="places") == clamped
    assert current().gaussian(exact, l2_squared=1, rho=1000, label="places") == clamped


@pytest.mark.chance(
    fix_chance.union(fix_chance.laplace(1000, 10**6 - 1, 800), fix_chance.gaussian(1000, 10**6 - 1, 800))
)
def test_noise_at_the_ends_saturates_and_never_wraps() -> None:
    """Scale 1000, 400 cells at each end, none wraps. A cell is off by 1e6 with probability e^-1000."""
    for end in (LATTICE_MAX, LATTICE_MIN):
        for noisy in (
            current().laplace([end] * 400, l1_sensitivity=1000, epsilon=1, label="ends"),
            current().gaussian([end] * 400, l2_squared=10**6, rho=Fraction(1, 2), label="ends"),
        ):
            assert all(LATTICE_MIN <= value <= LATTICE_MAX and abs(value - end) < 10**6 for value in noisy)
            assert len(set(noisy)) > 50


@pytest.mark.chance(
    fix_chance.union(fix_chance.binomial(2001, 1 - 2**-0.8, 0, 1000), fix_chance.binomial(2001, 2**-1.2, 0, 1000))
)
@pytest.mark.parametrize("exact", [0, 2**62, -(2**62)])
def test_large_scales_are_right(exact: int) -> None:
    """Scale 1e15 at counts up to 2^62: the median of 2001 |noise| is ln 2 * 1e15 within 20 %.

    |noise| is below 0.8 ln 2 with probability 1 - 2^-0.8, above 1.2 ln 2 with probability 2^-1.2: not in most cells.
    """
    noisy = current().laplace([exact] * 2001, l1_sensitivity=10**15, epsilon=1, label="scale")
    median = sorted(abs(value - exact) for value in noisy)[1000]
    assert 0.8 < median / (math.log(2) * 1e15) < 1.2


def test_an_empty_vector_is_an_empty_answer() -> None:
    assert current().laplace([], l1_sensitivity=1, epsilon=1, label="none") == []
    assert current().gaussian([], l2_squared=1, rho=1, label="none") == []


def test_selection_of_one_and_by_a_landslide() -> None:
    assert current().select([5], sensitivity=1, epsilon=1, label="one") == 0
    scores: list[int | Fraction | Decimal] = [Decimal("0.5"), 10**9, Fraction(1, 3)]
    assert {current().select(scores, sensitivity=1, epsilon=1, label="landslide") for _ in range(50)} == {1}
    with pytest.raises(ValueError, match="at least one score"):
        current().select([], sensitivity=1, epsilon=1, label="none")


def test_selection_among_runs() -> None:
    """A run of no candidates is an error; one landslide among 2^16 candidates is found at once."""
    for sizes in ([], [1], [1, 0], [1, -1], [1, 1, 1]):
        with pytest.raises(ValueError, match="positive size for each"):
            current().select_in_runs(sizes, [1, 2], sensitivity=1, epsilon=1, label="x")
    sizes, scores = [2**15, 1, 2**15 - 1], [0, 10**30, 0]
    assert current().select_in_runs(sizes, scores, sensitivity=1, epsilon=1, label="x") == 2**15


@pytest.mark.parametrize(
    "epsilon", [0, -1, Decimal("1000.1"), Decimal("NaN"), Decimal("Infinity"), Fraction(1, 10**19)]
)
def test_an_epsilon_out_of_range_is_dp005(epsilon: int | Decimal | Fraction) -> None:
    draws = (
        lambda: current().laplace([1], l1_sensitivity=1, epsilon=epsilon, label="x"),
        lambda: current().gaussian([1], l2_squared=10**20, rho=epsilon, label="x"),
        lambda: current().select([1, 2], sensitivity=1, epsilon=epsilon, label="x"),
    )
    for draw in draws[: 2 if epsilon == Fraction(1, 10**19) else 3]:
        with pytest.raises(DPError) as refused:
            draw()
        assert refused.value.sqlstate == "DP005"
        assert refused.value.hint


@pytest.mark.parametrize("sensitivity", [0, -1, Decimal("NaN"), 10**40])
def test_a_sensitivity_out_of_range_is_dp005(sensitivity: int | Decimal) -> None:
    with pytest.raises(DPError) as refused:
        current().laplace([1], l1_sensitivity=sensitivity, epsilon=1, label="x")
    assert refused.value.sqlstate == "DP005"


def test_a_float_is_not_an_amount() -> None:
    laplace_scale(1, Fraction(1, 2))  # in the cache: 0.5 equals it and hashes alike
    with pytest.raises(TypeError, match="epsilon"):
        current().laplace([1], l1_sensitivity=1, epsilon=0.5, label="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        current().laplace([1.5], l1_sensitivity=1, epsilon=1, label="x")  # type: ignore[list-item]


@SOME
@given(epsilon=EPSILONS, sensitivity=st.integers(1, 10**9))
def test_the_realised_loss_never_exceeds_epsilon(epsilon: Fraction, sensitivity: int) -> None:
    """Exactly: the scale is the smallest double with sensitivity / scale <= epsilon; likewise sigma for rho."""
    scale = laplace_scale(sensitivity, epsilon)
    assert sensitivity / Fraction(scale) <= epsilon
    assert sensitivity / Fraction(math.nextafter(scale, 0)) > epsilon
    sigma = gaussian_scale(sensitivity, epsilon)
    assert sensitivity / (2 * Fraction(sigma) ** 2) <= epsilon
    assert sensitivity / (2 * Fraction(math.nextafter(sigma, 0)) ** 2) > epsilon


def test_opendp_takes_the_scale_as_it_is() -> None:
    """OpenDP's own privacy map of the measurement that is drawn from agrees with ours (to its upward rounding)."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance

    current().laplace([0], l1_sensitivity=1, epsilon=1, label="enables the feature")
    space = vector_domain(atom_domain(T="i64"))
    for epsilon in ("0.1", "1", "3.7"):
        laplace = make_laplace(space, l1_distance(T="i64"), laplace_scale(1, Decimal(epsilon)))
        loss = laplace.map(1)  # type: ignore[no-untyped-call]
        assert 0 <= Fraction(loss) - Fraction(epsilon) + Fraction(1, 10**15) <= Fraction(1, 10**14)
        gaussian = make_gaussian(space, l2_distance(T="f64"), gaussian_scale(1, Decimal(epsilon)))
        rho = gaussian.map(1.0)  # type: ignore[no-untyped-call]
        assert 0 <= Fraction(rho) - Fraction(epsilon) + Fraction(1, 10**14) <= Fraction(1, 10**13)


def test_spec_vector_of_the_laplace_margin() -> None:
    """turbo.md §13: DLap at epsilon 0.1, smallest m with Pr[|Z| > m] <= 1e-3 is 69."""
    assert laplace_margin(laplace_scale(1, Decimal("0.1")), Decimal("0.001")) == 69


@SOME
@given(epsilon=EPSILONS, beta=st.fractions(Fraction(1, 10**12), Fraction(99, 100)))
def test_the_laplace_margin_is_the_smallest(epsilon: Fraction, beta: Fraction) -> None:
    scale = laplace_scale(1, epsilon)
    margin = laplace_margin(scale, beta)
    assert Fraction(laplace_tail(scale, margin + 1)) <= beta
    assert margin == 0 or Fraction(laplace_tail(scale, margin)) > beta


@SOME
@given(scale=st.floats(0.05, 40), m=st.integers(-3, 60))
def test_the_laplace_tail_is_the_sum_of_its_law(scale: float, m: int) -> None:
    law = [math.exp(-k / scale) for k in range(2500)]
    total = law[0] + 2 * math.fsum(law[1:])
    expected = 2 * math.fsum(law[m:]) / total if m > 0 else 1.0
    assert float(laplace_tail(scale, m)) == pytest.approx(expected, rel=1e-9)


@SOME
@given(sigma=st.floats(0.05, 300), m=st.integers(-3, 900))
def test_the_gaussian_tail_is_an_upper_bound_and_tight(sigma: float, m: int) -> None:
    """Never below the sum of the law; equal to it up to sigma 64; above, at most the sum two lattice steps nearer."""
    law = [math.exp(-((k / sigma) ** 2) / 2) for k in range(3 + max(12, math.ceil(30 * sigma)))]
    total = law[0] + 2 * math.fsum(law[1:])
    tail = [1.0 if k <= 0 else 2 * math.fsum(law[k:]) / total for k in (m, m - 2)]
    bound = gaussian_tail(sigma, m)
    assert bound >= tail[0]
    if sigma <= 64:
        assert bound == pytest.approx(tail[0], rel=1e-6, abs=1e-100)
    else:
        assert bound <= tail[1] * (1 + 1e-6) + 1e-100


@SOME
@given(sigma=st.floats(0.05, 1e13), beta=st.fractions(Fraction(1, 10**12), Fraction(99, 100)))
def test_the_gaussian_margin_holds(sigma: float, beta: Fraction) -> None:
    margin = gaussian_margin(sigma, beta)
    assert gaussian_tail(sigma, margin + 1) <= float(beta)
    assert margin == 0 or gaussian_tail(sigma, margin) > float(beta) * (1 - 1e-12)


def test_the_epsilon_of_an_accuracy_is_close_to_the_continuous_formula() -> None:
    """turbo.md §13: n = 10,000, alpha 0.05, beta 0.001: ln(1/beta)/(n alpha) = 0.0138155; the lattice asks for less."""
    epsilon = laplace_epsilon(500, Decimal("0.001"))
    assert Decimal("0.01379") < epsilon <= Decimal("0.0138156")
    assert laplace_margin(laplace_scale(1, epsilon), Decimal("0.001")) <= 500


@SOME
@given(
    tolerance=st.fractions(Fraction(1, 10), 10**9),
    beta=st.fractions(Fraction(1, 10**12), Fraction(99, 100)),
    sensitivity=st.integers(1, 50),
)
def test_the_epsilon_of_an_accuracy_is_the_smallest(tolerance: Fraction, beta: Fraction, sensitivity: int) -> None:
    """It keeps the promise, and one unit less in the 12th digit does not."""
    try:
        epsilon = laplace_epsilon(tolerance, beta, sensitivity)
    except DPError as refused:
        assert refused.sqlstate == "DP005"
        assert sensitivity * math.log(1 / beta) / (math.floor(tolerance) + 1) > 500
        return
    outside = math.floor(tolerance) + 1
    assert Fraction(laplace_tail(laplace_scale(sensitivity, epsilon), outside)) <= beta
    less = epsilon - Decimal(1).scaleb(epsilon.adjusted() - 11)
    assert Fraction(laplace_tail(laplace_scale(sensitivity, less), outside)) > beta


def test_margins_check_their_parameters() -> None:
    for beta in (0, 1, -1, Decimal("1e-16"), Decimal("NaN")):
        with pytest.raises(DPError, match="beta"):
            laplace_margin(1.0, beta)
        with pytest.raises(DPError, match="beta"):
            laplace_epsilon(5, beta)
    with pytest.raises(DPError, match="tolerated"):
        laplace_epsilon(0, Decimal("0.01"))
    with pytest.raises(DPError, match="larger than any number"):
        laplace_scale(SCALE_MAX, Decimal("0.5"))


def test_importing_noise_imports_no_library() -> None:
    """OpenDP and what it pulls in are loaded at the first draw; prelude, scipy and polars never."""
    heavy = "[m for m in sys.modules if m in ('opendp', 'numpy', 'scipy', 'polars', 'opendp.prelude')]"
    assert run_python(f"import sys, pg_epsilon.noise; print({heavy})") == "[]\n"
    drawn = run_python(
        "import sys\nfrom pg_epsilon.noise import current\n"
        "current().laplace([0], l1_sensitivity=1, epsilon=1, label='x')\n"
        "print([m for m in sys.modules if m in ('opendp.prelude', 'scipy', 'polars')])"
    )
    assert drawn == "[]\n"


@pytest.mark.chance(fix_chance.union(1e5**-2, fix_chance.NEVER))
@pytest.mark.long
def test_forked_backends_do_not_share_noise() -> None:
    """A parent that has drawn forks twice; three picks of 10^5 agree once in 10^10, 40 cells never."""
    printed = run_python(
        "import os\nfrom pg_epsilon.noise import current\n"
        "def draw():\n"
        "    cells = current().laplace([0] * 40, l1_sensitivity=10**6, epsilon=1, label='x')\n"
        "    return cells, current().select([0] * 10**5, sensitivity=1, epsilon=1, label='x')\n"
        "draw()\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        os.write(1, (str(draw()) + '\\n').encode()); os._exit(0)\n"
        "    os.wait()\n"
        "print(draw())"
    )
    vectors = [ast.literal_eval(line) for line in printed.splitlines()]
    assert len(vectors) == 3
    assert len({tuple(cells) for cells, _ in vectors}) == 3
    assert len({pick for _, pick in vectors}) > 1


def test_noise_is_the_only_door() -> None:
    """design.md R3: no other module of the engine imports a source of randomness; noise.py imports no seedable one."""
    doors = {"random", "secrets", "opendp", "numpy.random"}
    for path in PACKAGE.rglob("*.py"):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
        used = {door for door in doors if any(name == door or name.startswith(door + ".") for name in imported)}
        assert used <= ({"secrets", "opendp"} if path == PACKAGE / "noise.py" else set()), f"{path.name} imports {used}"
