"""The one request form: jsonb of any surface → a validated `Request` with a canonical form (composition.md §14.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import Aggregate, compile_aggregates
from pg_epsilon.query.copies import NONE_REGISTERED, Copies
from pg_epsilon.query.domain import MAX_KEYS
from pg_epsilon.query.expression import Fold, Scope
from pg_epsilon.query.keys import Key, compile_key
from pg_epsilon.query.kinds import NO_BUDGET, NO_KINDS, Asked, Budget, Head, Jointly, Kinds
from pg_epsilon.query.origin import Lookup, compile_origin
from pg_epsilon.query.partition import Partitions
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.released import NONE_STORED, Free, Releases
from pg_epsilon.query.schema import Relation
from pg_epsilon.query.source import Source
from pg_epsilon.query.types import Term, Texts

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
    ]
)
MAX_AGGREGATES = 64
# Of the integers that a release stores (mechanisms/estimators.py). Raised by any change of their number or meaning, so
# that no release is presented by another version's plan.
RELEASED_LAYOUT = 1
MAX_ANSWER = 64 * 1024 * 1024
MECHANISMS = ("auto", "laplace", "gaussian", "r2t", "exponential")


@dataclass(frozen=True)
class Request:
    """A validated question; everything in it is public.

    policy: of the first of its source's protected relations. keys: the distinct ones, in an order of their own, so that
    whoever asks for them in another order asks the same question; places: which of them each key that was asked for
    is. kinds: of which kinds of question it is beyond a block, by member. batch: which of the
    block's aggregates are one question together. free: of a kind that is answered from what was released: where from.
    conjuncts: the operands of the predicate's top-level AND. document: what it was compiled from.
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
    kinds: Mapping[str, Asked] = field(default_factory=dict)
    batch: Jointly | None = None
    free: Free | None = None
    conjuncts: tuple[Term, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def cells(self) -> int:
        """The number of groups, a public figure: the product of the declared domains."""
        cells = 1
        for key in self.keys:
            cells *= len(key.domain)
        return cells

    @cached_property
    def distinct(self) -> tuple[Aggregate, ...]:
        """The different aggregates, in an order of their own: in whatever order they are asked for, and how often."""
        found: dict[str, Aggregate] = {}
        for aggregate in self.aggregates:
            found.setdefault(aggregate.meaning, aggregate)
        return tuple(found[text] for text in sorted(found))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Which of the different aggregates each one is: whoever asks the same in another order has the same ones."""
        texts = [aggregate.meaning for aggregate in self.aggregates]
        order = {text: number for number, text in enumerate(sorted(set(texts)))}
        return tuple(order[text] for text in texts)

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
            "aggregates": [a.canonical() for a in self.distinct],
            "budget": budget,
            "mechanism": self.mechanism,
            **{member: asked.canonical() for member, asked in self.kinds.items()},
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
    releases: Releases = NONE_STORED,
    kinds: Kinds = NO_KINDS,
) -> Request:
    """Validate a request document against the policies of the relations that it names.

    lookup gives them; fold evaluates constant SQL under the session's settings, texts a query over constants and public
    tables under the engine's; clock is the time in seconds, for declared periods; copies are the synthetic tables,
    releases those that were given to who asks; kinds are the kinds of question that it may be of.
    Errors: DP003 for any unknown member or shape, DP004 for what is not declared, DP005 for parameters out of range;
    nothing is charged and no row is read here.
    """
    _check_form(document, kinds)
    asked_as = document
    settings = members.texts(document.get("settings") or {}, "settings")
    _check_meaning(settings)
    document = kinds.spelled_out(document, copies, releases)
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
        compile_key(members.text(text, "keys") or "", scope, fold, texts, origin.conjuncts)
        for text in members.items(document.get("keys"), "keys")
    )
    aggregates = compile_aggregates(members.items(document.get("aggregates"), "aggregates"), source, scope, fold)
    if len(aggregates) > MAX_AGGREGATES:
        raise DPError(OUT_OF_RANGE, f"more than {MAX_AGGREGATES} aggregates in one block", "Split the statement.")
    distinct = [key for _, key in sorted({key.sql: key for key in keys}.items())]
    compiled = document, settings, policy, source, keys, aggregates, fold, copies, releases
    head = Head(*compiled, scope, texts, origin.conjuncts)
    asked = kinds.ask(head)
    free = kinds.free(asked)
    request = Request(
        policy=policy,
        source=source,
        call=str(document.get("call") or "block"),
        predicate=origin.predicate,
        keys=tuple(distinct),
        places=tuple(next(i for i, one in enumerate(distinct) if one.sql == key.sql) for key in keys),
        aggregates=aggregates,
        budget=NO_BUDGET if free else head.budget,
        mechanism=_mechanism(head, kinds, asked),
        fresh=document.get("fresh") is True,
        bars=document.get("bars") is True,
        confidence=checked_confidence(settings.get("dp.confidence")),
        partitions=origin.partitions,
        data_version=tuple(part for p in source.relations for part in p.data_version_at(clock)),
        kinds=asked,
        batch=kinds.joint(head, asked),
        free=free,
        conjuncts=origin.conjuncts,
        document=asked_as,
    )
    _check_size(request)
    return request


def _check_form(document: Mapping[str, Any], kinds: Kinds) -> None:
    """DP003 for a document that is not of this version, or has members that nobody knows."""
    flags = all(isinstance(document.get(name), bool | None) for name in ("fresh", "bars"))
    if set(document) - MEMBERS - kinds.members or document.get("version") != 1 or not flags:
        raise DPError(
            SHAPE, "a request of an unknown form", "Use dp_count, dp_group_by, or plain SQL through the proxy."
        )


def _mechanism(head: Head, kinds: Kinds, asked: Mapping[str, Asked]) -> str:
    """The asked mechanism, else the setting's: a block's, or one that a kind of question knows."""
    own = kinds.mechanism(head, asked)
    if own is not None:
        return own
    name = str(head.document.get("mechanism") or head.settings.get("dp.mechanism") or "auto")
    if name not in MECHANISMS:
        raise DPError(
            OUT_OF_RANGE,
            "unknown mechanism",
            f"mechanism is one of {', '.join(MECHANISMS)}; if it was set by SET dp.mechanism: RESET dp.mechanism.",
        )
    return name


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


@lru_cache(maxsize=64)
def checked_confidence(value: Any) -> Decimal:
    """dp.confidence of a session, .95 where it has none. DP005 unless it is between 0 and 1."""
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


def timeless_text(request: Request) -> str:
    """The canonical form without what names the state of policy and data: which question this is, whenever asked."""
    asked = {name: value for name, value in request.canonical().items() if name not in ("policy", "policies")}
    return json.dumps([asked, RELEASED_LAYOUT], sort_keys=True)
