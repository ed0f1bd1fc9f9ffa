"""What a call costs, in its native form (composition.md §3.5 and §4): kept as entered, converted only when added up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from pg_epsilon.accounting.curves import bounded_range_to_rdp, gaussian_to_rdp, pure_to_rdp, round_down, round_up
from pg_epsilon.accounting.margins import Number, checked_epsilon, rational
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError

_EXACT = Context(prec=60, traps=[Inexact, InvalidOperation])  # sums of amounts never round

MAX_LEVELS = 1000
_NUMBERS = {"levels": "A ladder has few levels.", "rounds": "Rounds are few.", "parts": "Queries are few."}
"""Parameters that say of how many mechanisms a charge is, and what is said of too many."""

Parameters = Mapping[str, Decimal]


class Kind(NamedTuple):
    """One row of the table of composition.md §4. `pure` is None where no pure cost exists."""

    parameters: tuple[str, ...]
    pure: Callable[[Parameters], Decimal] | None
    rdp: Callable[[Parameters, Decimal], Decimal]
    delta: Callable[[Parameters], Decimal]


def _epsilon(parameters: Parameters) -> Decimal:
    return parameters["epsilon"]


def _no_delta(parameters: Parameters) -> Decimal:
    return Decimal(0)


def _pure_curve(parameters: Parameters, order: Decimal) -> Decimal:
    return pure_to_rdp(parameters["epsilon"], order)


def _levels_curve(name: str) -> Callable[[Parameters, Decimal], Decimal]:
    """min(L P(epsilon / L, a), P(epsilon, a)); epsilon / L is rounded up, so the product never falls short."""

    def curve(parameters: Parameters, order: Decimal) -> Decimal:
        levels = int(parameters[name])
        each = pure_to_rdp(round_up(Fraction(parameters["epsilon"]) / levels), order)
        return min(round_up(levels * Fraction(each)), pure_to_rdp(parameters["epsilon"], order))

    return curve


def _rounds_curve(parameters: Parameters, order: Decimal) -> Decimal:
    """min(T (min(P(h, a), a h^2 / 8) + P(h, a)), P(epsilon, a)), h = epsilon / 2T rounded up.

    Falls as T grows, because P(h, a) / h and h do: rounds are at least as many as the charge says.
    """
    rounds = int(parameters["rounds"])
    half = round_up(Fraction(parameters["epsilon"]) / (2 * rounds))
    each = Fraction(bounded_range_to_rdp(half, order)) + Fraction(pure_to_rdp(half, order))
    return min(round_up(rounds * each), pure_to_rdp(parameters["epsilon"], order))


def _thresholds_cost(parameters: Parameters) -> Decimal:
    return _EXACT.add(parameters["threshold_epsilon"], parameters["query_epsilon"])


def _bound_then_sum_curve(parameters: Parameters, order: Decimal) -> Decimal:
    """P(epsilon / 3, a) + P(2 epsilon / 3, a), each part rounded up."""
    third = Fraction(parameters["epsilon"]) / 3
    return _EXACT.add(pure_to_rdp(round_up(third), order), pure_to_rdp(round_up(2 * third), order))


def _no_curve(parameters: Parameters, order: Decimal) -> Decimal:
    """A cost that composition has made (epsilon, delta) of has no curve but a worse one (§3.5)."""
    raise DPError(
        OUT_OF_RANGE,
        "a charge of kind advanced has no Rényi cost, and the accountant of this dataset is 'renyi'",
        "Leave out delta: it is for datasets whose accountant is 'pure'.",
    )


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        # discrete Laplace, scalar or vector, of joint L1 sensitivity L1 and scale L1/epsilon
        "laplace": Kind(("epsilon",), _epsilon, _pure_curve, _no_delta),
        # discrete Gaussian, rho = L2^2 / (2 sigma^2)
        "gaussian": Kind(("rho",), None, lambda p, a: gaussian_to_rdp(p["rho"], a), _no_delta),
        # exponential mechanism: the log-odds of any two outcomes move by at most epsilon
        "exponential": Kind(("epsilon",), _epsilon, lambda p, a: bounded_range_to_rdp(p["epsilon"], a), _no_delta),
        # levels releases at epsilon / levels each (R2T)
        "r2t": Kind(("epsilon", "levels"), _epsilon, _levels_curve("levels"), _no_delta),
        # as many mechanisms of epsilon / parts each, adaptive, of which nothing better is known
        "parts": Kind(("epsilon", "parts"), _epsilon, _levels_curve("parts"), _no_delta),
        # as many adaptive rounds at least, each an exponential choice and a Laplace vector at half of its epsilon
        "rounds": Kind(("epsilon", "rounds"), _epsilon, _rounds_curve, _no_delta),
        # AboveThreshold with one positive: the threshold's share and the queries', for the whole run
        "above_threshold": Kind(
            ("threshold_epsilon", "query_epsilon"),
            _thresholds_cost,
            lambda p, a: pure_to_rdp(_thresholds_cost(p), a),
            _no_delta,
        ),
        # SVT_sum improved: PrivateBoundDS at epsilon / 3, then AboveThreshold at twice that
        "svt_sum": Kind(("epsilon",), _epsilon, _bound_then_sum_curve, _no_delta),
        # any other mechanism that is epsilon-DP and nothing better: PrivateBoundDS
        "pure": Kind(("epsilon",), _epsilon, _pure_curve, _no_delta),
        # adaptive steps of equal pure cost, together (epsilon, delta)-DP by advanced composition; pure datasets only
        "advanced": Kind(("epsilon", "delta"), _epsilon, _no_curve, lambda p: p["delta"]),
        # an outside release, proved (epsilon, delta) under add/remove
        "import": Kind(("epsilon", "delta"), _epsilon, _pure_curve, lambda p: p["delta"]),
    }
)


def _checked(name: str, value: Number) -> Decimal:
    if name in _NUMBERS:
        number = rational(value, name)
        if number.denominator != 1 or not 1 <= number <= MAX_LEVELS:
            raise DPError(OUT_OF_RANGE, f"{name} must be an integer from 1 to {MAX_LEVELS}", _NUMBERS[name])
        return Decimal(number.numerator)
    if name != "delta":
        return round_up(checked_epsilon(value, name))
    delta = rational(value, name)
    if not 0 <= delta < 1:
        raise DPError(OUT_OF_RANGE, "delta must be at least 0 and less than 1", "Usual values of delta: 1e-6 to 1e-9.")
    return round_up(delta)


@dataclass(frozen=True)
class Charge:
    """One mechanism's cost in native form: a kind of `KINDS` and its parameters, as decimals.

    A parameter of at most 18 decimals is kept exactly, a longer one is rounded up there. epsilon, rho in (0, 1000],
    delta in [0, 1); DP005 otherwise, DP003 for an unknown kind or parameter. The unit is the dataset's (add/remove).
    """

    kind: str
    parameters: tuple[tuple[str, Decimal], ...]

    @staticmethod
    def of(kind: str, **parameters: Number) -> Charge:
        row = KINDS.get(kind)
        if row is None or set(parameters) != set(row.parameters):
            raise DPError(
                SHAPE, "unknown kind or parameters of a charge", f"Kinds and parameters are: {_known_kinds()}."
            )
        return Charge(kind, tuple((name, _checked(name, parameters[name])) for name in row.parameters))

    def pure(self) -> tuple[Decimal, Decimal]:
        """(epsilon, delta) on a pure dataset; DP005 for a kind that has no such cost."""
        row = KINDS[self.kind]
        if row.pure is None:
            raise DPError(
                OUT_OF_RANGE,
                f"a charge of kind {self.kind} has no pure cost, and the accountant of this dataset is 'pure'",
                "Ask with epsilon instead of rho, or use a dataset whose accountant is 'renyi'.",
            )
        return row.pure(dict(self.parameters)), self.delta

    def rdp(self, orders: Sequence[Decimal]) -> tuple[Decimal, ...]:
        """r(a) at each order, at most 18 decimals, rounded up."""
        row, parameters = KINDS[self.kind], dict(self.parameters)
        return tuple(row.rdp(parameters, order) for order in orders)

    @property
    def delta(self) -> Decimal:
        return KINDS[self.kind].delta(dict(self.parameters))

    def to_json(self) -> dict[str, str]:
        """{"kind": …, parameter: decimal text}: the form of the ledger and of a request."""
        return {"kind": self.kind, **{name: format(value.normalize(_EXACT), "f") for name, value in self.parameters}}

    @staticmethod
    def from_json(document: Mapping[str, str]) -> Charge:
        """The inverse of `to_json`; DP003 for a document of another shape."""
        try:
            parameters = {name: Decimal(text) for name, text in document.items() if name != "kind"}
        except (InvalidOperation, TypeError, ValueError):
            raise DPError(SHAPE, "a charge's parameters must be decimal texts", f"Kinds: {_known_kinds()}.") from None
        return Charge.of(document.get("kind", ""), **parameters)


def _known_kinds() -> str:
    return ", ".join(f"{name}({', '.join(row.parameters)})" for name, row in KINDS.items())


def add(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum of decimal amounts, whatever the decimal context of the session is."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def total_pure(charges: Iterable[Charge]) -> tuple[Decimal, Decimal]:
    """(sum of epsilon, sum of delta): sequential composition, exact. Nothing costs (0, 0). DP005 as `Charge.pure`."""
    costs = [charge.pure() for charge in charges]
    return add(epsilon for epsilon, _ in costs), add(delta for _, delta in costs)


def total_rdp(charges: Iterable[Charge], orders: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """The sum of the curves at every order: adaptive composition of Rényi DP."""
    curves = [charge.rdp(orders) for charge in charges]
    return tuple(add(curve[i] for curve in curves) for i in range(len(orders)))


def total_delta(charges: Iterable[Charge]) -> Decimal:
    """The sum of the deltas: union over the events."""
    return add(charge.delta for charge in charges)


def share(amount: Decimal, parts: int) -> Decimal:
    """The largest amount of 18 decimals that fits `parts` times into `amount`: a block's budget split (§14.3)."""
    return round_down(Fraction(amount) / parts)
