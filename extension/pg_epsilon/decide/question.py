"""What a decision is about: the synthetic copy, the distance bound, the decider's parameters (dp-pqd.md §1, §2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from pg_epsilon.errors import CHANNEL, OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.copies import Copies, Synthetic
from pg_epsilon.query.parse import ast, parse_expression
from pg_epsilon.query.policy import Policy

REPORT, SYNTHETIC, FALLBACK = "report", "synthetic", "fallback"
TIES, PRINTED = "ties", "printed"
_NO_COPY = (
    "dp.published lists synthetic tables; the owner adds one: CALL dp.register_synthetic(relation, synthetic, ...)."
)


@dataclass(frozen=True)
class Interval:
    """I = (answer - tau, answer + tau), open and public: the distance bound is satisfied by what lies in it."""

    answer: Fraction
    tau: Fraction

    @property
    def low(self) -> Fraction:
        """The lower end."""
        return self.answer - self.tau

    @property
    def high(self) -> Fraction:
        """The upper end."""
        return self.answer + self.tau

    def holds(self, value: Fraction) -> bool:
        """Strictly inside: a distance of tau is too far (dp-pqd.md §3)."""
        return self.low < value < self.high


@dataclass(frozen=True)
class Question:
    """Everything of a decision but the query: public, validated before any row is read (dp-pqd.md §2.1).

    tau: the bound, in the answer's unit, or percent: in percent of the synthetic answer. policy: whether the decision
    is the answer (report), or the synthetic answer is (synthetic), or the private one where the bound is unmet
    (fallback). theta: the share of rows that a truncation should cover; beta: the chance that R2T overshoots; delta:
    the error level that warnings are about; score: of EM_med; largest: the asker's guess of the largest value in the
    answer. answers: q of the synthetic table, one for each distinct aggregate, None where it has none.
    """

    synthetic: Synthetic
    tau: Decimal | None = None
    percent: Decimal | None = None
    policy: str = REPORT
    theta: Decimal = Decimal("0.95")
    beta: Decimal = Decimal("0.05")
    delta: Decimal = Decimal("0.05")
    score: str = TIES
    largest: Decimal | None = None
    answers: tuple[Fraction | None, ...] = field(default=())

    def answered(self, answers: Sequence[Fraction | None]) -> Question:
        """The question, with the synthetic table's answers."""
        return replace(self, answers=tuple(answers))

    def interval(self, number: int) -> Interval:
        """I of one aggregate. DP005 if the synthetic table gives no answer, or 0 and the bound is relative."""
        answer = self.answers[number]
        if answer is None:
            raise DPError(
                OUT_OF_RANGE,
                f"{self.synthetic.qualified} has no row to answer this from",
                "A median or an average of no rows is nothing to compare with: widen the condition.",
            )
        if self.tau is not None:
            return Interval(answer, Fraction(self.tau))
        if answer == 0:
            raise DPError(
                OUT_OF_RANGE,
                f"the answer of {self.synthetic.qualified} is 0, and no percentage of it is a distance",
                "Give an absolute bound: tau => 10, or SET dp.tau = '10'.",
            )
        return Interval(answer, abs(answer) * Fraction(self.percent or 0) / 100)

    def canonical(self) -> dict[str, Any]:
        """What is decided; the public answers stand for the synthetic table's rows."""
        given = {k: v for k, v in vars(self).items() if k not in ("synthetic", "policy", "answers") and v is not None}
        return {
            **{k: str(v) for k, v in given.items()},
            "synthetic": [self.synthetic.schema, self.synthetic.name, self.synthetic.weight],
            "answers": [None if a is None else str(a) for a in self.answers],
        }


_MEMBERS = frozenset({"synthetic", "tau", "tau_percent", "policy", "parameters"})
_FORM = "Use dp_decide(query, synthetic => ..., tau => ...), or SET dp.synthetic and dp.tau."
_EXAMPLES: Mapping[str, str] = {
    "tau": "tau => 10, or SET dp.tau = '10', in the answer's unit; SET dp.tau = '5%' for a percentage",
    "tau_percent": "tau_percent => 5, or SET dp.tau = '5%': percent of the synthetic answer",
    "theta": "theta => 0.95: the share of rows that a truncation should cover",
    "beta": "beta => 0.05",
    "delta": "delta => 0.05: how often a decision may be wrong at the least tau",
    "largest": "largest => 5000: your guess of the largest value",
}
_SHARES: Mapping[str, tuple[Decimal, Decimal]] = {
    "theta": (Decimal("1e-9"), 1 - Decimal("1e-9")),
    "beta": (Decimal("1e-12"), Decimal("0.999")),
    "delta": (Decimal("1e-12"), Decimal("0.999")),
}


def original(document: Mapping[str, Any], copies: Copies) -> tuple[tuple[str, str], tuple[str, str]]:
    """(the relation, its copy) that an explicit decision is about, as (schema, name). DP005 if it is no copy."""
    asked = members.texts(members.mapping(document.get("decide"), "decide").get("synthetic") or {}, "synthetic")
    schema, name = asked.get("schema"), asked.get("name")
    found = copies.original(schema, name) if schema is not None and name is not None else None
    if schema is None or name is None or found is None:
        what = f"{name} is not a registered synthetic table" if name else "no synthetic table is named"
        raise DPError(OUT_OF_RANGE, what, _NO_COPY)
    return found, (schema, name)


def compile_question(
    document: Mapping[str, Any], settings: Mapping[str, str | None], policy: Policy, copies: Copies
) -> Question | None:
    """The question of a request's `decide` member, or of the session's settings for plain SQL; None: no decision.

    Errors: DP003 for a form that is not understood, DP005 for what is out of range, DP006 for a broken registration.
    """
    if document.get("decide") is None:
        if document.get("call") not in (None, "block") or not settings.get("dp.synthetic"):
            return None
        given = _of_settings(settings)
    else:
        given = members.mapping(document["decide"], "decide")
    if set(given) - _MEMBERS:
        raise DPError(SHAPE, "a decision of an unknown form", _FORM)
    if document.get("joins"):
        raise only_one_number()
    _check_quantiles(document)
    parameters = members.texts(given.get("parameters") or {}, "parameters")
    if set(parameters) - {*_SHARES, "score", "largest"}:
        raise DPError(SHAPE, "unknown parameter of a decision", "Parameters: theta, beta, delta, score, largest.")
    if (given.get("tau") is None) == (given.get("tau_percent") is None):
        raise DPError(
            OUT_OF_RANGE,
            "a decision needs tau or tau_percent, and not both",
            "tau => 10 is absolute, tau_percent => 5 is relative to the synthetic answer.",
        )
    one_of(given.get("policy") or REPORT, "policy", (REPORT, SYNTHETIC, FALLBACK))
    one_of(parameters.get("score") or TIES, "score", (TIES, PRINTED))
    numbers: dict[str, Any] = {
        name: _number(parameters[name], name) for name in (*_SHARES, "largest") if parameters.get(name)
    }
    return Question(
        synthetic=_copy(members.texts(given.get("synthetic"), "synthetic"), policy, copies),
        tau=_number(given["tau"], "tau") if given.get("tau") is not None else None,
        percent=_number(given["tau_percent"], "tau_percent") if given.get("tau_percent") is not None else None,
        policy=given.get("policy") or REPORT,
        score=parameters.get("score") or TIES,
        **numbers,
    )


def _check_quantiles(document: Mapping[str, Any]) -> None:
    """The synthetic side is exact, and its values are of the table: no interpolation (dp-pqd.md §6)."""
    asked = members.items(document.get("aggregates"), "aggregates")
    if any(isinstance(item, dict) and item.get("function") == "percentile_cont" for item in asked):
        raise DPError(
            SHAPE,
            "no decider compares percentile_cont",
            "Use percentile_disc(p) WITHIN GROUP (ORDER BY x), or median(x).",
        )


def only_one_number() -> DPError:
    """What a decision cannot be about (dp-pqd.md §2.1)."""
    return DPError(
        SHAPE,
        "a decision is about one number of one relation: no GROUP BY, no joins",
        "Ask group by group with WHERE, or without the synthetic table: RESET dp.synthetic.",
    )


def one_of(value: Any, name: str, allowed: Sequence[str]) -> None:
    """DP005 unless it is one of them."""
    if value not in allowed:
        raise DPError(OUT_OF_RANGE, f"unknown {name}", f"{name} is one of {', '.join(allowed)}.")


def _of_settings(settings: Mapping[str, str | None]) -> Mapping[str, Any]:
    """dp.synthetic, dp.tau and dp.synthetic_policy of a session as a `decide` member."""
    tau = (settings.get("dp.tau") or "").strip()
    if not tau:
        raise DPError(
            OUT_OF_RANGE,
            "dp.synthetic is set, and dp.tau is not",
            "SET dp.tau = '5%' (or '10'), or RESET dp.synthetic.",
        )
    policy = (settings.get("dp.synthetic_policy") or SYNTHETIC).strip().lower()
    if policy not in (SYNTHETIC, FALLBACK):
        raise DPError(
            OUT_OF_RANGE, "dp.synthetic_policy must be synthetic or fallback", "SET dp.synthetic_policy = 'fallback'"
        )
    return {
        "synthetic": _relation_name(settings.get("dp.synthetic") or ""),
        "tau_percent" if tau.endswith("%") else "tau": tau.removesuffix("%").strip(),
        "policy": policy,
    }


def _relation_name(text: str) -> dict[str, str | None]:
    """'adult_syn', 'public.adult_syn', '"Odd name"' → its parts, folded as PostgreSQL folds them."""
    try:
        node = parse_expression(text)
    except DPError:
        node = None
    fields: tuple[Any, ...] = tuple(node.fields or ()) if isinstance(node, ast.ColumnRef) else ()
    parts = [part.sval for part in fields if isinstance(part, ast.String)]
    if not 1 <= len(parts) <= 2 or len(parts) != len(fields):
        raise DPError(OUT_OF_RANGE, "dp.synthetic is not the name of a table", "SET dp.synthetic = 'adult_syn'")
    return {"schema": parts[0] if len(parts) == 2 else None, "name": parts[-1]}


def _copy(asked: Mapping[str, str | None], policy: Policy, copies: Copies) -> Synthetic:
    """The registered copy of the relation that is meant."""
    found = [
        one for one in copies.of(policy) if one.name == asked.get("name") and asked.get("schema") in (None, one.schema)
    ]
    if len(found) != 1:
        name = ".".join(part for part in (asked.get("schema"), asked.get("name")) if part)
        what = "names several synthetic tables" if found else "is not a synthetic table"
        more = "" if found else " RESET dp.synthetic to ask without one."
        raise DPError(OUT_OF_RANGE, f"{name:.130} {what} of {policy.relation.qualified}", _NO_COPY + more)
    if not found[0].valid:
        raise DPError(
            CHANNEL,
            f"{found[0].qualified} no longer has the columns it was registered with",
            "The owner finds in dp.check() what to change; until then ask without it: RESET dp.synthetic.",
        )
    return found[0]


def _number(value: Any, name: str) -> Decimal:
    """A positive decimal; a share lies strictly between 0 and 1."""
    low, high = _SHARES.get(name, (Decimal("1e-18"), Decimal("1e100")))
    try:
        number = Decimal(members.text(value, name) or "")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or not low <= number <= high:
        words = "above 0 and below 1" if name in _SHARES else "a number from 1e-18 to 1e100"
        raise DPError(OUT_OF_RANGE, f"{name} must be {words}", _EXAMPLES.get(name, f"{name} => 10"))
    return number.normalize()
