"""The only module that sees plpy: one function per SQL function of the engine (rule R6: read, then think).

`charge` and `answer` run in the channel's backend, each in a transaction of its own (rule R2); the others touch policy
tables only. Refusals of `charge` and `answer` are returned, not raised: the channel stays open, and the caller's side
raises them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import plpy

from pg_epsilon import noise
from pg_epsilon._version import VERSION
from pg_epsilon.answer import shown
from pg_epsilon.catalog import Catalog, check_paid
from pg_epsilon.decide import synthetic
from pg_epsilon.decide.question import Question
from pg_epsilon.declared import Declared
from pg_epsilon.errors import CHANNEL, SHAPE, DPError, ReadFailed
from pg_epsilon.mechanisms import group_by
from pg_epsilon.plan import Plan, describe, make_plan
from pg_epsilon.query.expression import FoldError
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.request import Request, compile_request
from pg_epsilon.query.schema import Relation
from pg_epsilon.query.statistics import collect
from pg_epsilon.refusals import check_not_frozen, closed, locked, not_published
from pg_epsilon.turbo_engine import PaidFor, TurboEngine
from pg_epsilon.turbo_owner import Owner
from pg_epsilon.turbo_why import instead, why_not

_plans: dict[str, Any] = {}
_pending: dict[str, Plan] = {}
_PENDING_MAX = 16
_facts: dict[str, Any] = {}

# Our own lock wait, a cancel, a shutdown: they say nothing about a row. Whatever else fails next to rows could.
_INNOCENT = frozenset({"55P03", "57014", "57P01"})


def rows(sql: str, types: Sequence[str] = (), args: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Rows of one of our own statements, prepared once per backend."""
    if sql not in _plans:
        _plans[sql] = plpy.prepare(sql, list(types))
    return list(plpy.execute(_plans[sql], list(args)))


def read(statement: str) -> list[dict[str, Any]]:
    """The statistics statement: the one read of private rows. Not prepared: its plan should fit today's rows."""
    return list(plpy.execute(statement))


catalog = Catalog(rows)
_declared = Declared(catalog, rows)
turbo = TurboEngine(catalog, rows, noise.current, lambda document: _request(document), lambda query: _texts(query))


class _ShapeClosed(Exception):
    """A read failed next to rows: the subtransaction is undone, then the shape is closed."""

    def __init__(self, shape: str) -> None:
        super().__init__()
        self.shape = shape


def charge(request_id: str, who: str, request: str) -> str:
    """First transaction: authorise, plan, pay. See dp._charge."""

    def pay() -> dict[str, Any]:
        document = json.loads(request)
        asked = _request(document)
        catalog.authorise(asked, who)
        try:
            by_turbo = turbo.reply(asked, request_id, who, document)
        except PaidFor as late:  # in here, so that what was paid and told stays (turbo.md E-22)
            return {"refusal": _refusal(_named(late.error))}
        if by_turbo is not None:
            return {"answer": by_turbo}
        plan_ = instead(asked, turbo.views, _texts, _planned)
        if catalog.is_closed(plan_.shape):
            raise closed()
        if not plan_.charges:
            raw: list[list[int]] = [[] for _ in range(plan_.request.cells)]
            return {"answer": _answer(plan_, raw, request_id, who, "declared domain", _now())}
        cached = None if plan_.request.fresh else catalog.cached(plan_)
        if cached is not None:
            return {"answer": _answer(plan_, cached.raw, cached.request_id, who, "cache", cached.as_of)}
        check_not_frozen(plan_.request.policy)
        catalog.pay(plan_, request_id, who, document)
        while len(_pending) >= _PENDING_MAX:
            _pending.pop(next(iter(_pending)))
        _pending[request_id] = plan_
        return {"charged": True}

    return _reply(request_id, pay)


def answer(request_id: str) -> str:
    """Second transaction: read, compute, record. See dp._answer."""

    def release() -> dict[str, Any]:
        paid = catalog.charged(request_id)
        if paid is None:
            # dp.warm asks so: the sampler is loaded and draws nothing
            noise.current().laplace([], l1_sensitivity=1, epsilon=1, label="none")
            raise DPError(CHANNEL, "no committed charge for this request", "Ask again through dp_query.")
        plan_ = _pending.pop(request_id, None)
        if plan_ is None or plan_.request.policy.version != catalog.policy_version():
            plan_ = _as_paid(paid)
        if catalog.is_closed(plan_.shape):
            raise closed()
        raw = catalog.recorded(request_id)
        if raw is None:
            raw = _think(plan_, _read_statistics(plan_))
            catalog.record(plan_, request_id, raw)
            if plan_.decisions and plan_.unused(raw[0]):
                catalog.give_back(plan_, request_id, paid["who"], plan_.unused(raw[0]))
        return {"answer": _answer(plan_, raw, request_id, paid["who"], "direct", _now())}

    return _reply(request_id, release)


def _as_paid(paid: dict[str, Any]) -> Plan:
    """The plan of a committed charge, compiled again; DP006 if the policy no longer gives the question that price."""
    plan_ = _compile(json.loads(paid["request"]))
    check_paid(plan_, paid)
    return plan_


def on_policy(call: str, arguments: str) -> str:
    """{"value"} or {"refusal"} of a call on public facts: a dry run, a remainder, a check. See dp._engine."""
    return json.dumps(_attempt(lambda: {"value": _ON_POLICY[call](**json.loads(arguments))}))


def on_turbo(call: str, arguments: str) -> str:
    """{"value"} or {"refusal"} of what an owner does to a Turbo view. See dp._turbo."""
    return json.dumps(_attempt(lambda: {"value": getattr(_owner, _ON_TURBO[call])(**json.loads(arguments))}))


_owner = Owner(catalog, turbo.views, rows, noise.current, turbo.outlook)
_ON_TURBO = {name: name for name in ("enable", "refresh", "seal", "seal_until", "reopen")}


def _plan(request: Any) -> dict[str, Any]:
    """Dry run: what a request would do and cost (composition.md §9). See dp.dp_plan."""
    who = rows("SELECT dp._who()::text AS who")[0]["who"]
    asked = _request(request)
    policy = asked.policy
    catalog.authorise(asked, who)
    by_turbo = turbo.plan(asked, who)
    if by_turbo is not None:
        return {**by_turbo, "request": asked.canonical()}
    plan_ = instead(asked, turbo.views, _texts, _planned)
    path = "declared domain" if not plan_.charges else "direct"
    if path == "direct" and not plan_.request.fresh and catalog.cached(plan_) is not None:
        path = "cache"
    info = describe(plan_, path=path, left=catalog.left(plan_, who), as_of=policy.data_as_of)
    if path == "direct":
        check_not_frozen(policy)
    paid = path == "direct"
    info["charge"] = {"worst": plan_.charge_text() if paid else {}, "best": plan_.best_text() if paid else {}}
    if plan_.decisions:
        info["decide"] = [row for one in plan_.decisions for row in one.alternatives()]
    if reason := why_not(asked, turbo.views, _texts):
        info["turbo"] = f"not used: {reason}"
    return {**info, "request": plan_.request.canonical()}


_ON_POLICY: dict[str, Callable[..., Any]] = {
    "plan": _plan,
    "renyi_orders": _declared.renyi_orders,
    "check_grid": _declared.check_grid,
    "budget": _declared.budget,
    "import": _declared.import_price,
    "turbo_problems": lambda: _owner.problems(),
}


def _reply(request_id: str, step: Callable[[], dict[str, Any]]) -> str:
    """What the channel answers; the id shows that it answers this request."""
    return json.dumps({"request_id": request_id, **_attempt(step)})


def _attempt(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run one step in a subtransaction; a refusal undoes it and is the reply, anything else is one constant error."""
    try:
        with plpy.subtransaction():
            return step()
    except _ShapeClosed as closing:
        catalog.close(closing.shape)
        error = closed()
    except plpy.SPIError as failed:
        if failed.sqlstate == "57014":
            raise
        error = _named(failed)
    except Exception as failed:
        error = _named(failed)
    return {"refusal": _refusal(error)}


def _named(failed: Exception) -> DPError:
    """What is said of a failure: our own refusals as they are."""
    if isinstance(failed, DPError):
        return failed
    if isinstance(failed, plpy.SPIError) and failed.sqlstate == "55P03":
        return locked()
    return _unfinished(failed)


def _refusal(error: DPError) -> dict[str, str | None]:
    detail = error.detail
    if detail is None and error.position is not None:
        detail = f"At character {error.position + 1} of the expression."
    return {"sqlstate": error.sqlstate, "message": error.message, "detail": detail, "hint": error.hint}


def _unfinished(error: Exception) -> DPError:
    """One constant refusal. The log gets the place and the error's type, never its text: that could hold a value."""
    frame, place = error.__traceback__, ""
    while frame is not None:
        place = f"{frame.tb_frame.f_code.co_name}:{frame.tb_lineno}"
        frame = frame.tb_next
    plpy.warning(f"pg_epsilon: {type(error).__name__} at {place}")
    return DPError(
        CHANNEL,
        "the call could not be completed",
        "Ask again; if it persists, the administrator finds the place in the server's log and in dp.check().",
    )


def _server_facts() -> dict[str, Any]:
    """Version and encoding of the server, once per backend; DP006 if package and extension differ in version."""
    if not _facts:
        found = rows(
            "SELECT current_setting('server_version_num')::int AS version, pg_encoding_to_char(encoding) AS encoding,"
            " (SELECT extversion FROM pg_extension WHERE extname = 'pg_epsilon') AS extversion"
            " FROM pg_database WHERE datname = current_database()"
        )[0]
        if found["extversion"] != VERSION:
            raise DPError(
                CHANNEL,
                f"the Python package is version {VERSION}, the extension {found['extversion']}",
                "Install matching versions, then ALTER EXTENSION pg_epsilon UPDATE and reconnect.",
            )
        _facts.update(found)
    return _facts


def _compile(document: Any) -> Plan:
    """Request document → plan, against the policy of now."""
    return _planned(_request(document))


def _planned(request: Request) -> Plan:
    if request.decide is not None and request.aggregates and not request.keys:
        request = replace(request, decide=request.decide.answered(_synthetic_answers(request, request.decide)))
    return make_plan(request)


def _request(document: Any) -> Request:
    """Request document → what is asked, against the policy of now."""
    if not isinstance(document, dict):
        raise DPError(
            SHAPE, "a request names one relation", "Use dp_count, dp_group_by, or plain SQL through the proxy."
        )
    facts = _server_facts()
    return compile_request(
        document,
        _relation,
        _folder(document.get("settings") or {}),
        _texts,
        encoding=facts["encoding"],
        server_version=facts["version"],
        clock=time.time(),
        copies=catalog,
    )


def _synthetic_answers(request: Request, question: Question) -> Sequence[Fraction | None]:
    """What the synthetic table, which is public, says: read before anything is charged (dp-pqd.md §2.1)."""
    try:
        with plpy.subtransaction():
            return synthetic.answers(plpy.execute(synthetic.statement(request, question))[0], request)
    except plpy.SPIError as error:
        if error.sqlstate != "42703":
            raise
        raise DPError(
            SHAPE,
            f"{question.synthetic.qualified} does not have a column that the question names",
            "Ask about columns that the synthetic table has, or ask without it: RESET dp.synthetic.",
        ) from None


def _relation(schema: str, name: str) -> Policy | Relation:
    found = catalog.relation(schema, name)
    if isinstance(found, Policy):
        _check_open(found)
    return found


def _texts(query: str) -> list[str | None]:
    """The column v of a query over constants and public tables, under the engine's own settings."""
    try:
        with plpy.subtransaction():
            return [row["v"] for row in plpy.execute(query)]
    except plpy.SPIError as error:
        if error.sqlstate == "57014":
            raise
        raise FoldError from None


def _check_open(policy: Policy) -> None:
    if not policy.published:
        raise not_published(policy.relation.qualified)
    if policy.linked and not policy.has_user_units:
        raise DPError(
            CHANNEL,
            f"{policy.relation.qualified} was joined by a foreign key to another protected relation of its dataset",
            "Rows of joined relations need a dataset whose unit is a user: see dp.check().",
        )


def _folder(settings: dict[str, Any]) -> Callable[[Sequence[str]], Sequence[str | None]]:
    """Evaluates constants as the analyst's session would: his TimeZone and DateStyle in, ISO and UTC out."""

    def fold(expressions: Sequence[str]) -> Sequence[str | None]:
        order = str(settings.get("DateStyle") or "ISO, MDY").rpartition(",")[2].strip()
        columns = [f"pg_typeof({e})::text AS t{i}, ({e})::text AS v{i}" for i, e in enumerate(expressions)]
        try:
            with plpy.subtransaction():
                _set("DateStyle", f"ISO, {order}")
                _set("IntervalStyle", str(settings.get("IntervalStyle") or "postgres"))
                _set("TimeZone", str(settings.get("TimeZone") or "UTC"))
                found = plpy.execute(f"SELECT {', '.join(columns)}")[0]
                _set("TimeZone", "UTC")
                _set("DateStyle", "ISO, YMD")
                _set("IntervalStyle", "iso_8601")
                return [_in_utc(found[f"v{i}"], found[f"t{i}"]) for i in range(len(expressions))]
        except plpy.SPIError as error:
            if error.sqlstate == "57014":
                raise
            raise FoldError from None

    return fold


def _in_utc(value: str | None, type_name: str) -> str | None:
    if value is None or type_name != "timestamp with time zone":
        return value
    return str(rows("SELECT $1::timestamptz::text AS v", ["text"], [value])[0]["v"])


def _set(name: str, value: str) -> None:
    rows("SELECT set_config($1, $2, true)", ["text", "text"], [name, value])


def _read_statistics(plan_: Plan) -> list[dict[str, Any]]:
    """The exact statistics. A failure next to rows closes the shape; a wait of ours or a cancel does not."""
    if plan_.statement is None:
        return []
    try:
        with plpy.subtransaction():
            return read(plan_.statement)
    except plpy.SPIError as error:
        if error.sqlstate in _INNOCENT:
            raise
        raise _ShapeClosed(plan_.shape) from None


def _think(plan_: Plan, statistics: list[dict[str, Any]]) -> list[list[int]]:
    """The pure core on the exact statistics; only released integers leave."""
    keys = plan_.request.keys
    exact = collect(statistics, len(keys), [one for choice in plan_.choices for one in choice.statistics])
    try:
        return group_by.core(exact, [key.domain for key in keys], plan_.measures, noise.current())
    except ReadFailed:
        raise _ShapeClosed(plan_.shape) from None


def _now() -> str:
    return str(rows("SELECT clock_timestamp()::timestamptz(0)::text AS t")[0]["t"])


def _answer(plan_: Plan, raw: list[list[int]], request_id: str, who: str, path: str, as_of: str) -> dict[str, Any]:
    """A release as people see it."""
    return shown(plan_, raw, request_id=request_id, path=path, as_of=as_of, left=catalog.left(plan_, who))
