"""The only module that sees plpy: one function per SQL function of the engine (rule R6: read, then think).

`charge` and `answer` run in the channel's backend, each in its transaction (R2), and return refusals: it stays open.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import plpy

from pg_epsilon import noise
from pg_epsilon.answer import shown
from pg_epsilon.catalog import Catalog, check_paid
from pg_epsilon.declared import Declared
from pg_epsilon.engine import failures, readable, ready, tasks
from pg_epsilon.engine.answerers import Families, Turbo, instead, planned, unused
from pg_epsilon.engine.aside import Aside
from pg_epsilon.engine.draws import Draws, Pending, remember
from pg_epsilon.engine.failures import Failures, Unforeseen, failure_of, watched
from pg_epsilon.engine.folding import Folding
from pg_epsilon.engine.planning import Planning, PlanningFailed
from pg_epsilon.engine.redaction import redact
from pg_epsilon.engine.shelf import Shelf
from pg_epsilon.engine.spelling import spelled
from pg_epsilon.engine.steps import More, Steps
from pg_epsilon.engine.tail import tail_problems
from pg_epsilon.engine.witness import check_witness, note_witnessed
from pg_epsilon.errors import CHANNEL, SHAPE, DPError, refusal_to_json
from pg_epsilon.mechanisms import group_by, waiting
from pg_epsilon.mechanisms.task import Answerer, PaidFor
from pg_epsilon.plan import Plan, describe, make_plan
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.request import Request, compile_request
from pg_epsilon.query.schema import Relation
from pg_epsilon.query.statistics import collect
from pg_epsilon.refusals import check_not_frozen

# What lets a cancel through in a long core. Not by the name `plpy`, which audits replace to compare what is asked:
# how often a core asks is a matter of time.
waiting.use(partial(plpy.execute, "SELECT 1"))

_plans: dict[str, Any] = {}
_pending: dict[str, Pending] = {}


def rows(sql: str, types: Sequence[str] = (), args: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Rows of one of our own statements, prepared once per backend."""
    if sql not in _plans:
        _plans[sql] = plpy.prepare(_spelled(sql), list(types))
    return list(plpy.execute(_plans[sql], list(args)))


def read(statement: str) -> list[dict[str, Any]]:
    """The statistics statement: the one read of private rows. Not prepared: its plan should fit today's rows."""
    return list(plpy.execute(_spelled(statement)))


def _spelled(sql: str) -> str:
    return sql if sql.isascii() else spelled(sql, ready.server_facts(rows)["encoding"])


def _explain(statement: str) -> str | None:
    """Plan a statement with the settings of its read; the SQLSTATE of what planning raised, None if nothing."""
    try:
        with plpy.subtransaction():
            plpy.execute(_spelled(f"EXPLAIN (COSTS OFF) {statement}"))
    except plpy.SPIError as failed:
        if failures.is_data_independent(failed):
            raise
        return str(failed.sqlstate)
    return None


tasks.remember_by(Aside(plpy.prepare, plpy.execute).rows)
catalog = Catalog(rows, lambda *given: families.entered(*given))
_failures = Failures(rows)
links = catalog.links
planning = Planning(_explain, lambda line: plpy.warning(line))
_folding = Folding(rows, lambda statement: plpy.execute(_spelled(statement)), lambda: plpy.subtransaction())
_texts, _folder = _folding.texts, _folding.folder
_draws = Draws(
    catalog,
    lambda plan_: _think(plan_, _read_statistics(plan_)),
    Steps(rows, lambda plan_: _read_statistics(plan_), lambda: noise.current()),
    _explain,
    lambda: plpy.subtransaction(),
)
_declared, _shelf = Declared(catalog, rows), Shelf(rows, lambda document: _compile(document))
turbo = Turbo(
    catalog,
    rows,
    noise.current,
    lambda document: _request(document),
    _texts,
    lambda statement: planning.check(statement, 1, catalog.policy_version()),
)
families: Families = Families(rows, _texts, catalog.left)
answerers: tuple[Answerer, ...] = (families, turbo)


def charge(request_id: str, who: str, request: str, witness: str | None = None) -> str:
    """First transaction: authorise, plan, pay, or find that it is paid. See dp._charge.

    witness: heads of chains that the gateway has seen. A freeze by them stays, whatever becomes of the question.
    """
    catalog.entitlements.let_go()
    held = _attempt(lambda: {"first": check_witness(rows, witness)})
    if "refusal" in held:
        return json.dumps({"request_id": request_id, **held})

    def pay() -> dict[str, Any]:
        tasks.start()
        document = json.loads(request)
        asked = _request(document, who)
        catalog.authorise(asked, who)
        links.concern(asked.policy.dataset.name if witness is not None else None)
        for answerer in answerers:
            reply = _answered(answerer, asked, request_id, who, document)
            if reply is not None:
                return reply
        plan_ = instead(asked, answerers, _planned)
        if not plan_.charges:
            raw: list[list[int]] = [[] for _ in range(plan_.request.cells)]
            return {"answer": _answer(plan_, raw, request_id, who, plan_.free.path, plan_.free.as_of or _now())}
        cached = _cached(plan_, who)
        if cached is not None:
            return cached
        _check_open(plan_, who)
        ready.check_ready()
        try:
            _check_readable(plan_)
        except PlanningFailed as error:
            raise Unforeseen(failure_of(plan_.request, who, None, error, plan_.question)) from None
        paid = _owed(plan_, request_id) or catalog.pay(
            plan_, request_id, who, document, lambda: _owed(plan_, request_id) or _cached(plan_, who)
        )
        tasks.keep(who)
        remember(_pending, paid["owed"] if paid and "owed" in paid else request_id, Pending(plan_, paid is None))
        return paid or {"charged": True}

    reply = _reply(request_id, pay)
    note_witnessed(rows, held["first"])  # locks heads, which whoever pays locks last
    return reply


_named = partial(failures.said_of, lambda place: plpy.warning(f"pg_epsilon: {place}"))


def _answered(
    answerer: Answerer, asked: Request, request_id: str, who: str, document: dict[str, Any]
) -> dict[str, Any] | None:
    """The reply of another way to answer: an answer, or a refusal after something was paid, which stays paid."""
    try:
        found = answerer.reply(asked, request_id, who, document)
        return None if found is None else {"answer": found}
    except PaidFor as late:  # in here, so that what was paid and told stays (turbo.md E-22)
        if failures.is_named(late.error):
            return {"refusal": refusal_to_json(_named(late.error))}
        return _unforeseen(failure_of(asked, who, None, late.error))
    except Exception as error:
        if failures.is_named(error):
            raise
        raise Unforeseen(failure_of(asked, who, None, error)) from None


def _cached(plan_: Plan, who: str) -> dict[str, Any] | None:
    """The stored answer of a question that does not ask for a fresh one."""
    found = None if plan_.request.fresh else catalog.cached(plan_)
    if found is None:
        return None
    catalog.serve(plan_, found.request_id, found.who, who)
    return {"answer": _answer(plan_, found.raw, found.request_id, who, "cache", found.as_of)}


def _owed(plan_: Plan, request_id: str) -> dict[str, Any] | None:
    """An earlier charge that owes this question's answer. Not the one of a repeated step."""
    found = catalog.entitlements.find(plan_)
    return None if found in (None, request_id) else {"owed": found}


def answer(request_id: str, who: str | None = None, request: str | None = None, stop: bool = False) -> str:
    """Second transaction: read, compute, record; of a release in steps one step, with `stop` what was drawn before.

    who and request: of whom another's charge answers. See dp._answer."""

    def release() -> dict[str, Any]:
        tasks.start()
        paid = catalog.entitlements.claim(request_id)
        if paid is None:
            # dp.warm asks so: the sampler is loaded and draws nothing
            noise.current().laplace([], l1_sensitivity=1, epsilon=1, label="none")
            raise DPError(CHANNEL, "no committed charge for this request", "Ask again through dp_query.")
        plan_, counted = _pending.pop(request_id, None) or (None, False)
        if plan_ is None or plan_.request.policy.version != catalog.policy_version():
            plan_ = _compile(json.loads(request or paid["request"]), who or paid["who"])
        check_paid(plan_, paid)  # also of a plan of now: whoever was awaited may have paid for another one
        asker = who or paid["who"]
        path = "direct" if who is None else "paid before"
        links.concern(plan_.request.policy.dataset.name)
        raw = catalog.recorded(request_id)
        if raw is not None:
            catalog.serve(plan_, request_id, paid["who"], asker)
            return {"answer": _answer(plan_, raw, request_id, asker, path, _now())}
        _check_open(plan_, asker)
        drawn = _draws.draw(plan_, request_id, paid["who"], asker, counted=counted, stop=stop)
        if isinstance(drawn, More):
            remember(_pending, request_id, Pending(plan_, counted=True))
            return {"more": drawn._asdict()}
        with watched(plan_.request, asker, request_id, plan_.question):  # drawn again, it would tell more than was paid
            tasks.keep(paid["who"])
            catalog.serve(plan_, request_id, paid["who"], asker)
            return {"answer": _answer(plan_, drawn, request_id, asker, path, _now())}

    try:
        reply = _reply(request_id, release)
    except BaseException:  # cancelled: who asks again must find the charge, before this backend has ended
        catalog.entitlements.let_go()
        raise
    if '"refusal"' in reply:  # an answer is nobody else's before it is committed: its charge is let go later
        catalog.entitlements.let_go()
    return reply


def _check_open(plan_: Plan, who: str) -> None:
    """DP006 where nothing may be paid or drawn: a frozen dataset, a closed question, a closed allotment."""
    dataset = plan_.request.policy.dataset.name
    check_not_frozen(rows, dataset)
    _failures.check_open(plan_.question, dataset, who)


def probe(request_id: str) -> str:
    """What keeps every question from being answered, tried in this backend; charges nothing. See dp._probe."""
    return _reply(request_id, lambda: {"troubles": ready.troubles(rows)})


def _check_readable(plan_: Plan) -> None:
    """Everything that could make the read fail, decided before any account is locked (composition.md §10.3 a)."""
    readable.check(rows, _read_public, plan_, catalog.limits, planning)


def on_policy(call: str, arguments: str) -> str:
    """{"value"} or {"refusal"} of a call on public facts: a dry run, a remainder, a check. See dp._engine."""
    return json.dumps(_attempt(lambda: {"value": _ON_POLICY[call](**json.loads(arguments))}))


def on_turbo(call: str, arguments: str) -> str:
    """{"value"} or {"refusal"} of what an owner does to a Turbo view. See dp._turbo."""
    return json.dumps(_attempt(lambda: {"value": getattr(turbo.owner, _ON_TURBO[call])(**json.loads(arguments))}))


def on_ledger(call: str, arguments: str) -> str:
    """{"value"} or {"refusal"} of what an administrator does to the ledger. See dp._ledger."""
    return json.dumps(_attempt(lambda: {"value": _ON_LEDGER[call](**json.loads(arguments))}))


_ON_LEDGER: dict[str, Callable[..., Any]] = {"redact": lambda request_id, who: redact(rows, links, request_id, who)}
_ON_TURBO = {n: n for n in ("enable", "refresh", "due", "seal", "seal_until", "reopen", "boundary", "retain")}


def _plan(request: Any) -> dict[str, Any]:
    """Dry run: what a request would do and cost (composition.md §9). See dp.dp_plan."""
    who = rows("SELECT dp._who()::text AS who")[0]["who"]
    asked = _request(request, who)
    policy = asked.policy
    catalog.authorise(asked, who)
    other = planned(asked, answerers, who)
    if other is not None:
        return {**other, "request": asked.canonical()}
    plan_ = instead(asked, answerers, _planned)
    path = "direct" if plan_.charges else plan_.free.path
    if path == "direct" and not plan_.request.fresh and catalog.cached(plan_) is not None:
        path = "cache"
    left = catalog.payments.left(policy, plan_.scope, who)
    info = describe(plan_, path=path, left=left, as_of=plan_.free.as_of or policy.data_as_of)
    if path == "direct":
        readable.check(rows, None, plan_, catalog.limits, None)
    info["charge"] = {"worst": {}, "best": {}}
    if path == "direct":
        check_not_frozen(rows, policy.dataset.name)
        info["charge"] = {"worst": plan_.charge_text(), "best": plan_.best_text()}
    info.update(tasks.alternatives(plan_))
    info.update({name: f"not used: {reason}" for name, reason in unused(asked, answerers).items()})
    return {**info, "request": plan_.request.canonical()}


_ON_POLICY: dict[str, Callable[..., Any]] = {
    "plan": _plan,
    "renyi_orders": _declared.renyi_orders,
    "check_grid": _declared.check_grid,
    "budget": _declared.budget,
    "import": _declared.import_price,
    "shown": _shelf.shown,
    "turbo_problems": lambda: turbo.owner.problems(),
    "chain_problems": lambda: tail_problems(rows),
}


def _reply(request_id: str, step: Callable[[], dict[str, Any]]) -> str:
    """What the channel answers; the id shows that it answers this request. chain: the head that this step made."""
    return json.dumps({"request_id": request_id, **_attempt(step)})


def _attempt(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run one step in a subtransaction; a refusal undoes it and is the reply, anything else is one constant error."""
    links.clear()
    try:
        with plpy.subtransaction():
            reply, head = step(), links.append()
            return reply if head is None else {**reply, "chain": head}
    except Unforeseen as event:
        links.clear()
        reply, head = _unforeseen(event.failure), links.append()
        return {**reply, "chain": head} if head else reply
    except plpy.SPIError as failed:
        if failed.sqlstate == "57014":
            raise
        error = _named(failed)
    except Exception as failed:
        error = _named(failed)
    return {"refusal": refusal_to_json(error)}


def _unforeseen(failure: failures.Failure) -> dict[str, Any]:
    """Log, count and close what nobody foresaw, in the transaction that commits; the constant refusal."""
    plpy.warning(f"pg_epsilon: unforeseen failure, SQLSTATE {failure.sqlstate}, {failure.place}")
    entered, said = _failures.record(failure)
    links.note(entered)
    return {"refusal": refusal_to_json(said)}


def _compile(document: Any, who: str | None = None) -> Plan:
    """Request document → plan, against the policy of now."""
    return _planned(_request(document, who))


def _planned(request: Request) -> Plan:
    return make_plan(tasks.completed(request, _read_public))


def _request(document: Any, who: str | None = None) -> Request:
    """Request document → what is asked, against the policy of now; who: whose releases it may be about."""
    if not isinstance(document, dict):
        raise DPError(
            SHAPE, "a request names one relation", "Use dp_count, dp_group_by, or plain SQL through the proxy."
        )
    facts = ready.server_facts(rows)
    return compile_request(
        document,
        _relation,
        _folder(document.get("settings") or {}),
        _texts,
        encoding=facts["encoding"],
        server_version=facts["version"],
        clock=time.time(),
        copies=catalog,
        releases=_shelf.of(who),
        kinds=tasks.KINDS,
    )


def _read_public(statement: str) -> list[dict[str, Any]]:
    """Rows of a statement over public tables, or none, before anything is charged; its SPIError is the caller's."""
    with plpy.subtransaction():
        return list(plpy.execute(_spelled(statement)))


def _relation(schema: str, name: str) -> Policy | Relation:
    return catalog.asked(schema, name)


def _read_statistics(plan_: Plan) -> list[dict[str, Any]]:
    """The exact statistics of a plan."""
    return [] if plan_.statement is None else read(plan_.statement)


def _think(plan_: Plan, statistics: list[dict[str, Any]]) -> list[list[int]]:
    """The pure core on the exact statistics; only released integers leave."""
    keys = plan_.request.keys
    exact = collect(statistics, len(keys), [one for choice in plan_.choices for one in choice.statistics])
    return group_by.core(exact, [key.domain for key in keys], plan_.measures, noise.current())


def _now() -> str:
    return str(rows("SELECT clock_timestamp()::timestamptz(0)::text AS t")[0]["t"])


def _answer(plan_: Plan, raw: list[list[int]], request_id: str, who: str, path: str, as_of: str) -> dict[str, Any]:
    """A release as people see it."""
    left = catalog.payments.left(plan_.request.policy, plan_.scope, who)
    return shown(plan_, raw, request_id=request_id, path=path, as_of=as_of, left=left)
