"""The one request form: jsonb of any surface → a validated `Request` with a canonical form (composition.md §14.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from pg_epsilon.decide.question import NONE_REGISTERED, Copies, Question, compile_question, original
from pg_epsilon.decide.statement import members as members_of
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import Aggregate, compile_aggregate
from pg_epsilon.query.domain import MAX_KEYS
from pg_epsilon.query.expression import Fold, Scope
from pg_epsilon.query.keys import Key, compile_key
from pg_epsilon.query.origin import Lookup, compile_origin
from pg_epsilon.query.partition import Partitions
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.schema import Relation
from pg_epsilon.query.source import Source
from pg_epsilon.query.types import Term, Texts
from pg_epsilon.synthesis.ask import Synthesis, compile_synthesis

MEMBERS = frozenset(
    [
        "version",
        "call",
        "from",
        "joins",
        "where",
        "keys",
        "aggregates",
        "budget",
        "mechanism",
        "fresh",
        "bars",
        "settings",
        "decide",
        "query",
        "path",
        "synthesize",
    ]
)
MAX_AGGREGATES = 64
# Of the integers that a release stores (mechanisms/estimators.py). Raised by any change of their number or meaning, so
# that no release is presented by another version's plan.
RELEASED_LAYOUT = 1
MAX_ANSWER = 64 * 1024 * 1024
MECHANISMS = ("auto", "laplace", "gaussian", "r2t", "exponential")
_BUDGETS = (frozenset({"epsilon"}), frozenset({"rho"}), frozenset({"alpha", "beta"}))


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
    """A validated question; everything in it is public.

    policy: of the first of its source's protected relations. keys: the distinct ones; places: which of them each key
    that was asked for is. conjuncts: the operands of the predicate's top-level AND.
    """

    policy: Policy
    source: Source
    call: str
    predicate: str | None
    keys: tuple[Key, ...]
    places: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    budget: Budget
    mechanism: str
    fresh: bool
    bars: bool
    confidence: Decimal
    partitions: Partitions | None
    data_version: tuple[int, ...]
    decide: Question | None = None
    synthesize: Synthesis | None = None
    conjuncts: tuple[Term, ...] = ()

    @property
    def cells(self) -> int:
        """The number of groups, a public figure: the product of the declared domains."""
        cells = 1
        for key in self.keys:
            cells *= len(key.domain)
        return cells

    @property
    def distinct(self) -> tuple[Aggregate, ...]:
        """The different aggregates, in the order in which they are first asked for."""
        found: dict[str, Aggregate] = {}
        for aggregate in self.aggregates:
            found.setdefault(repr(aggregate.canonical()), aggregate)
        return tuple(found.values())

    @property
    def answer_size(self) -> int:
        """Bytes that the answer's cells take at most: by public facts, so that no noisy value decides if it fits."""
        keys = sum(self.cells // len(k.domain) * sum(len((v or "").encode()) + 8 for v in k.domain) for k in self.keys)
        return keys + self.cells * len(self.aggregates) * (128 if self.bars else 32)

    def canonical(self) -> dict[str, Any]:
        """What is asked, with every constant and setting resolved: equal questions have equal canonical forms."""
        budget = {k: format(v, "f") for k, v in vars(self.budget).items() if isinstance(v, Decimal)}
        several = {} if len(self.source.relations) == 1 else {"policies": [p.digest for p in self.source.relations]}
        return {
            "relation": self.policy.relation_key,
            "policy": self.policy.digest,
            **several,
            "from": self.source.sql,
            "where": self.predicate,
            "keys": [key.canonical() for key in self.keys],
            "aggregates": [a.canonical() for a in self.aggregates],
            "budget": budget,
            "mechanism": self.mechanism,
            **({} if self.decide is None else {"decide": self.decide.canonical()}),
            **({} if self.synthesize is None else {"synthesize": self.synthesize.canonical()}),
        }


def compile_request(
    document: Mapping[str, Any],
    lookup: Lookup,
    fold: Fold,
    texts: Texts,
    *,
    encoding: str,
    server_version: int,
    clock: float,
    copies: Copies = NONE_REGISTERED,
) -> Request:
    """Validate a request document against the policies of the relations that it names.

    lookup gives them; fold evaluates constant SQL under the session's settings, texts a query over constants and public
    tables under the engine's; clock is the time in seconds, for declared periods; copies are the synthetic tables.
    Errors: DP003 for any unknown member or shape, DP004 for what is not declared, DP005 for parameters out of range;
    nothing is charged and no row is read here.
    """
    _check_form(document)
    settings = members.texts(document.get("settings") or {}, "settings")
    _check_meaning(settings)
    document = _spelled_out(document, copies)
    session = Scope(
        relation=Relation("", "", 0),
        encoding=encoding,
        timezone=settings.get("TimeZone") or "UTC",
        server_version=server_version,
        now=settings.get("now"),
        public=lambda schema, name: _readable(lookup(schema, name)),
    )
    origin = compile_origin(document, lookup, session, fold)
    scope, source, policy = origin.scope, origin.source, origin.source.relations[0]
    keys = tuple(
        compile_key(members.text(text, "keys") or "", scope, fold, texts)
        for text in members.items(document.get("keys"), "keys")
    )
    aggregates = tuple(
        compile_aggregate(a, source, scope, fold) for a in members.items(document.get("aggregates"), "aggregates")
    )
    if len(aggregates) > MAX_AGGREGATES:
        raise DPError(OUT_OF_RANGE, f"more than {MAX_AGGREGATES} aggregates in one block", "Split the statement.")
    distinct = list({key.sql: key for key in keys}.values())
    decide = compile_question(document, settings, policy, copies)
    request = Request(
        policy=policy,
        source=source,
        call=str(document.get("call") or "block"),
        predicate=origin.predicate,
        keys=tuple(distinct),
        places=tuple(next(i for i, one in enumerate(distinct) if one.sql == key.sql) for key in keys),
        aggregates=aggregates,
        budget=_budget(document.get("budget"), settings, policy),
        mechanism=_mechanism(document, settings, decide),
        fresh=document.get("fresh") is True,
        bars=document.get("bars") is True,
        confidence=_confidence(settings.get("dp.confidence")),
        partitions=origin.partitions,
        data_version=tuple(part for p in source.relations for part in p.data_version_at(clock)),
        decide=decide,
        synthesize=compile_synthesis(document, policy),
        conjuncts=origin.conjuncts,
    )
    _check_size(request)
    return request


def _check_form(document: Mapping[str, Any]) -> None:
    """DP003 for a document that is not of this version, or has members that nobody knows."""
    flags = all(isinstance(document.get(name), bool | None) for name in ("fresh", "bars"))
    if set(document) - MEMBERS or document.get("version") != 1 or not flags:
        raise DPError(
            SHAPE, "a request of an unknown form", "Use dp_count, dp_group_by, or plain SQL through the proxy."
        )


def _spelled_out(document: Mapping[str, Any], copies: Copies) -> Mapping[str, Any]:
    """A document with a query's text → with its from, where and aggregates."""
    if document.get("query") is None:
        return document
    relation, copy = original(document, copies)
    path = [members.text(name, "path") or "" for name in members.items(document.get("path"), "path")]
    return {**document, **members_of(members.text(document["query"], "query") or "", path, relation, copy)}


def _mechanism(document: Mapping[str, Any], settings: Mapping[str, str | None], decide: Question | None) -> str:
    """The asked mechanism; with a decision it is a decider's name, which the aggregate has to know."""
    asked = str(document.get("mechanism") or settings.get("dp.mechanism") or "auto")
    if asked == "auto" and decide is not None:
        asked = str(settings.get("dp.mechanism") or "auto") if document.get("call") in (None, "block") else "auto"
    if decide is None and asked not in MECHANISMS:
        raise DPError(OUT_OF_RANGE, "unknown mechanism", f"mechanism is one of {', '.join(MECHANISMS)}.")
    return asked


def _readable(found: Policy | Relation) -> Relation:
    return found.relation if isinstance(found, Policy) else found


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


def _budget(explicit: Any, settings: Mapping[str, Any], policy: Policy) -> Budget:
    given = members.mapping(explicit, "budget") if explicit is not None else {}
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


def canonical_text(request: Request) -> str:
    """The canonical form as one text, to hash and to compare; with the layout of what is released for it."""
    return json.dumps([request.canonical(), request.data_version, RELEASED_LAYOUT], sort_keys=True)
