"""The one request form: jsonb of any surface → a validated `Request` with a canonical form (composition.md §14.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query.domain import MAX_KEYS
from pg_epsilon.query.expression import Fold, Scope, compile_expression, compile_predicate
from pg_epsilon.query.keys import Key, compile_key
from pg_epsilon.query.parse import ast, deparse, parse_expression
from pg_epsilon.query.partition import Partitions, touched_partitions
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.source import Source, single

ROWS, UNITS, COLUMN = "rows", "units", "column"
MEMBERS = frozenset(
    ["version", "call", "from", "where", "keys", "aggregates", "budget", "mechanism", "fresh", "settings"]
)
MAX_AGGREGATES = 64
MAX_ANSWER = 64 * 1024 * 1024
MECHANISMS = ("auto", "laplace", "gaussian")
_BUDGETS = (frozenset({"epsilon"}), frozenset({"rho"}), frozenset({"alpha", "beta"}))


@dataclass(frozen=True)
class Aggregate:
    """A count of rows, of rows with a non-null argument, or of units; `argument` and `filter` are validated SQL."""

    of: str
    argument: str | None
    filter: str | None
    name: str


@dataclass(frozen=True)
class Budget:
    """What the asker offers for the whole block: epsilon, or rho, or an accuracy (alpha, beta)."""

    kind: str
    epsilon: Decimal | None = None
    rho: Decimal | None = None
    alpha: Decimal | None = None
    beta: Decimal | None = None


@dataclass(frozen=True)
class Request:
    """A validated question about one protected relation; everything in it is public."""

    policy: Policy
    source: Source
    call: str
    predicate: str | None
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    budget: Budget
    mechanism: str
    fresh: bool
    confidence: Decimal
    partitions: Partitions | None
    data_version: tuple[int, int]

    @property
    def cells(self) -> int:
        """The number of groups, a public figure: the product of the declared domains."""
        cells = 1
        for key in self.keys:
            cells *= len(key.domain)
        return cells

    @property
    def answer_size(self) -> int:
        """Bytes that the answer's cells take at most: by public facts, so that no noisy value decides if it fits."""
        keys = sum(self.cells // len(k.domain) * sum(len((v or "").encode()) + 8 for v in k.domain) for k in self.keys)
        return keys + self.cells * len(self.aggregates) * 32

    def canonical(self) -> dict[str, Any]:
        """What is asked, with every constant and setting resolved: equal questions have equal canonical forms."""
        budget = {k: format(v, "f") for k, v in vars(self.budget).items() if isinstance(v, Decimal)}
        return {
            "relation": self.policy.relation_key,
            "policy": self.policy.digest,
            "where": self.predicate,
            "keys": [key.sql for key in self.keys],
            "aggregates": [
                {
                    "count": a.of,
                    **({"argument": a.argument} if a.argument else {}),
                    **({"filter": a.filter} if a.filter else {}),
                }
                for a in self.aggregates
            ],
            "budget": budget,
            "mechanism": self.mechanism,
        }


def compile_request(
    document: Mapping[str, Any], policy: Policy, fold: Fold, *, encoding: str, server_version: int, clock: float
) -> Request:
    """Validate a request document against the relation's policy.

    fold evaluates constant SQL under the session's settings; clock is the time in seconds, for declared periods.
    Errors: DP003 for any unknown member or shape, DP004 for what is not declared, DP005 for parameters out of range;
    nothing is charged and no row is read here.
    """
    unknown = set(document) - MEMBERS
    if unknown or document.get("version") != 1:
        raise DPError(
            SHAPE, "a request of an unknown form", "Use dp_count, dp_group_by, or plain SQL through the proxy."
        )
    settings = _texts(document.get("settings") or {}, "settings")
    _check_meaning(settings)
    origin = _texts(document.get("from"), "from")
    if set(origin) - {"schema", "name", "alias"} or not isinstance(document.get("fresh"), bool | None):
        raise DPError(
            SHAPE, "a request of an unknown form", "Use dp_count, dp_group_by, or plain SQL through the proxy."
        )
    scope = Scope(
        relation=policy.relation,
        alias=origin.get("alias"),
        encoding=encoding,
        timezone=settings.get("TimeZone") or "UTC",
        server_version=server_version,
        now=settings.get("now"),
    )
    where = _text(document.get("where"), "where")
    predicate = _predicate(where, scope, fold)
    keys = tuple(compile_key(_text(text, "keys") or "", scope) for text in _list(document.get("keys"), "keys"))
    aggregates = tuple(_aggregate(a, policy, scope, fold) for a in _list(document.get("aggregates"), "aggregates"))
    if len(aggregates) > MAX_AGGREGATES:
        raise DPError(OUT_OF_RANGE, f"more than {MAX_AGGREGATES} aggregates in one block", "Split the statement.")
    if len({key.name for key in keys}) < len(keys):
        raise DPError(SHAPE, "a group key is named twice", "Name each key once.")
    mechanism = document.get("mechanism") or settings.get("dp.mechanism") or "auto"
    if mechanism not in MECHANISMS:
        raise DPError(OUT_OF_RANGE, "unknown mechanism", f"mechanism is one of {', '.join(MECHANISMS)}.")
    partitions = touched_partitions(policy, where, scope, fold)
    restrictions = ([partitions.sql] if partitions else []) + ([predicate] if predicate else [])
    request = Request(
        policy=policy,
        source=single(policy, restrictions),
        call=str(document.get("call") or "block"),
        predicate=predicate,
        keys=keys,
        aggregates=aggregates,
        budget=_budget(document.get("budget"), settings, policy),
        mechanism=mechanism,
        fresh=document.get("fresh") is True,
        confidence=_confidence(settings.get("dp.confidence")),
        partitions=partitions,
        data_version=policy.data_version_at(clock),
    )
    _check_size(request)
    return request


def _check_size(request: Request) -> None:
    """Limits are checked on public bounds, before the charge (composition.md §10.3)."""
    if request.cells * max(1, len(request.aggregates)) > MAX_KEYS:
        raise DPError(
            OUT_OF_RANGE,
            f"more than {MAX_KEYS} groups and aggregates in one answer",
            "Group by fewer keys, ask for fewer aggregates, or declare coarser domains.",
        )
    if request.answer_size > MAX_ANSWER:
        raise DPError(OUT_OF_RANGE, "the answer could be larger than 64 MB", "Group by fewer keys, or ask in parts.")


def _check_meaning(settings: Mapping[str, str | None]) -> None:
    """Settings that make PostgreSQL read the same predicate as another one: refused, not imitated."""
    for name, usual in (("transform_null_equals", "off"), ("array_nulls", "on")):
        if settings.get(name) not in (None, usual):
            raise DPError(SHAPE, f"{name} changes what predicates mean", f"RESET {name}, and write what you mean.")


def _predicate(text: str | None, scope: Scope, fold: Fold) -> str | None:
    """Validated SQL of a predicate; a refusal shows where in the asker's own text it stands."""
    if text is None:
        return None
    try:
        return compile_predicate(text, scope, fold).sql
    except DPError as error:
        if error.position is not None and error.detail is None:
            near = " ".join(text[error.position : error.position + 40].split())
            error.detail = f'At character {error.position + 1} of the predicate, near "{near}".'
        raise


def _aggregate(item: Any, policy: Policy, scope: Scope, fold: Fold) -> Aggregate:
    parts = _aggregate_from_text(item) if isinstance(item, str) else _mapping(item, "aggregates")
    if set(parts) - {"function", "argument", "distinct", "filter", "name"} or parts.get("function") != "count":
        raise DPError(
            SHAPE,
            f"aggregate {parts.get('function')!s:.60} is not supported",
            "Supported: count(*), count(x), count(distinct unit).",
        )
    if not isinstance(parts.get("distinct"), bool | None):
        raise DPError(SHAPE, "request member distinct is not a boolean", "Use count(distinct unit).")
    name = str(parts.get("name") or "count")
    where = _text(parts.get("filter"), "filter")
    filter_sql = _predicate(where, scope, fold)
    argument = _text(parts.get("argument"), "argument")
    if parts.get("distinct") is True:
        _check_unit_argument(argument, policy, scope)
        return Aggregate(UNITS, None, filter_sql, name)
    if argument is None:
        raise DPError(OUT_OF_RANGE, "what must be 'rows' or 'units'", "dp_count(relation, predicate, what => 'units')")
    if argument == "*":
        return Aggregate(ROWS, None, filter_sql, name)
    expression = compile_expression(argument, scope, fold)
    return Aggregate(COLUMN, expression.sql, filter_sql, name)


def _check_unit_argument(argument: str | None, policy: Policy, scope: Scope) -> None:
    hint = "On a dataset whose unit is a user, count(distinct unit_column) counts users."
    if not policy.has_user_units:
        raise DPError(SHAPE, "distinct counts need a dataset whose unit is a user", "count(*) counts the units: rows.")
    if argument is None:
        return
    node = parse_expression(argument)
    if isinstance(node, ast.ColumnRef):
        fields = node.fields or ()
        last = fields[-1]
        if isinstance(last, ast.String) and last.sval == policy.unit_column:
            qualifier = [f.sval for f in fields[:-1] if isinstance(f, ast.String)]
            relation = policy.relation
            if qualifier in ([], [scope.alias or relation.name], [relation.schema, relation.name]):
                return
    raise DPError(SHAPE, "only the privacy unit can be counted distinctly", hint)


def _aggregate_from_text(text: str) -> Mapping[str, Any]:
    """'count(distinct x) FILTER (WHERE p)' → the parts of a request's aggregate."""
    node = parse_expression(text)
    allowed = {"funcname", "args", "agg_star", "agg_distinct", "agg_filter", "funcformat", "location"}
    names = [part.sval for part in node.funcname or ()] if isinstance(node, ast.FuncCall) else []
    if names not in (["count"], ["pg_catalog", "count"]):
        raise DPError(
            SHAPE,
            f"{text[:60]} is not a supported aggregate",
            "Supported: count(*), count(x), count(distinct unit), each with FILTER.",
        )
    used = {slot for slot in node if getattr(node, slot) not in (None, False, ())}
    if used - allowed or (not node.agg_star and len(node.args or ()) != 1):
        raise DPError(
            SHAPE,
            f"{text[:60]} has a part that is not supported",
            "Supported: count(*), count(x), count(distinct unit), each with FILTER.",
        )
    return {
        "function": "count",
        "argument": "*" if node.agg_star else deparse(next(iter(node.args or ()))),
        "distinct": bool(node.agg_distinct),
        "filter": deparse(node.agg_filter) if node.agg_filter is not None else None,
        "name": text,
    }


def _budget(explicit: Any, settings: Mapping[str, Any], policy: Policy) -> Budget:
    given = _mapping(explicit, "budget") if explicit is not None else {}
    if not given:
        given = {
            name: settings[f"dp.{name}"] for name in ("epsilon", "rho", "alpha", "beta") if settings.get(f"dp.{name}")
        }
        if set(given) in ({"alpha"}, {"beta"}):
            raise DPError(OUT_OF_RANGE, "dp.alpha and dp.beta go together", "SET both, or dp.epsilon.")
    if not given:
        if policy.dataset.default_epsilon is None:
            raise DPError(
                OUT_OF_RANGE,
                "how much may this cost?",
                "SET dp.epsilon = 0.1, or pass epsilon => 0.1; the dataset has no default.",
            )
        return Budget("epsilon", epsilon=policy.dataset.default_epsilon)
    if frozenset(given) not in _BUDGETS:
        raise DPError(
            OUT_OF_RANGE,
            "two kinds of budget at once",
            "Give epsilon, or rho, or alpha with beta; RESET the other dp.* settings.",
        )
    numbers = {name: _number(value, name) for name, value in given.items()}
    return Budget("accuracy" if "alpha" in numbers else next(iter(numbers)), **numbers)


def _number(value: Any, name: str) -> Decimal:
    """A positive decimal as written. 1000 is the largest amount any noise takes; the ledger's grain is 1e-18."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    top = 1 if name in ("alpha", "beta") else 1000
    if not number.is_finite() or not Decimal("1e-18") <= number <= top or (top == 1 and number >= 1):
        raise DPError(
            OUT_OF_RANGE,
            f"{name} must be a number above 0 and {'below 1' if top == 1 else 'at most 1000'}",
            f"Common values: {'0.05' if top == 1 else '0.01 to 1'}.",
        )
    return number


@lru_cache(maxsize=64)
def _confidence(value: Any) -> Decimal:
    try:
        number = Decimal(str(value)) if value else Decimal("0.95")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or not 0 < number < 1 or number > Decimal("0.999999999"):
        raise DPError(OUT_OF_RANGE, "dp.confidence must be between 0 and 1", "SET dp.confidence = 0.95")
    return number


def _mapping(value: Any, member: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DPError(
            SHAPE,
            f"request member {member} is not an object",
            "Use dp_count, dp_group_by, or plain SQL through the proxy.",
        )
    return value


def _texts(value: Any, member: str) -> Mapping[str, Any]:
    """A member that is an object of texts, nulls among them."""
    for name, text in _mapping(value, member).items():
        _text(text, f"{member}.{name:.60}")
    return _mapping(value, member)


def _list(value: Any, member: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise DPError(
            SHAPE,
            f"request member {member} is not a list",
            "Use dp_count, dp_group_by, or plain SQL through the proxy.",
        )
    return value or []


def _text(value: Any, member: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DPError(
            SHAPE,
            f"request member {member} is not a text",
            "Use dp_count, dp_group_by, or plain SQL through the proxy.",
        )
    return value


def canonical_text(request: Request) -> str:
    """The canonical form as one text, to hash and to compare."""
    return json.dumps([request.canonical(), request.data_version], sort_keys=True)
