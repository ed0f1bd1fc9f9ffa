"""Running blocks: parameters become constants, requests are asked, answers become documents. This charges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..session.rewriting import BoundParams, Made, Refusal, SessionIO
from ..session.spelled import in_ascii, is_plain
from . import probes, refusals, workloads
from .bars import with_bars
from .blocks import Arms, Block, CallBlock, EmptyBlock, QueryBlock, ViewBlock, check_width
from .explain import DOCUMENTS, answered_from, call_text, lines
from .notices import (
    division_fact,
    notice_text,
    odd_division,
    undefined_text,
    unknown,
    unread_text,
    wanted,
    warnings_of,
)
from .rehearse import NEVER, NOTHING, rehearsal, rehearse
from .splice import document, encode
from .units import Execution, Meaning, Unit, parameter_oids

Explained = tuple[str, Mapping[str, Any]]
# Arms, the request of one call for all of them, and the engine's plan of it.
Together = tuple[Arms, dict[str, Any], Mapping[str, Any]]
# The session's own: the engine's sessions are shared by all clients.
LAST_ANSWER = ("dp", "last_answer")
STYLES = ("DateStyle", "TimeZone", "IntervalStyle")


@dataclass
class Inputs:
    """What a statement's blocks may depend on besides their own text: all public to the asker."""

    settings: probes.Settings
    constants: Mapping[int, Any]
    params: Any
    oids: list[int]
    deadline: float | None


async def run_unit(unit: Unit, bind: BoundParams | None, io: SessionIO) -> list[str]:
    """Documents of one statement, in the order of its marks. Charges, EXPLAIN aside. Errors: Refusal, FacadeError."""
    if unit.refused is not None:
        raise unit.refused.again()
    if unit.note is not None:
        await _remember(*unit.note, io)
    if not unit.blocks:
        return []
    if unit.execute is not None and bind is None and unit.explained is None:
        unit.execute.held = await io.hold(unit.text, parameter_oids(unit))
    inputs = await (_inputs(unit, bind, io) if unit.execute is None else _evaluated(unit, unit.execute, io))
    if unit.explained is not None:
        return [await _explain(unit, inputs, io)]
    if unit.keeps and not await _rehearsed(unit, io):
        return [NEVER for _ in unit.blocks]
    requests = [await _request(block, inputs, io) if _asks(block) else None for block in unit.blocks]
    paid = [(block, request) for block, request in zip(unit.blocks, requests, strict=True) if _pays(block) and request]
    plans: dict[int, Mapping[str, Any]] = {}
    if len(paid) > 1:
        # What the last block is refused for must not cost the first one's price.
        for block, request in paid:
            plans[block.number] = await _blaming(block, request, io.upstream.plan(request), io)
    asked = {block.number: request for block, request in paid}
    known: dict[int, dict[str, Any]] = {}
    for workload, whole, _ in await _workloads(unit.blocks, asked, plans, inputs, io):
        known |= await _answered(workload, whole, inputs, io)
    pairs = zip(unit.blocks, requests, strict=True)
    documents = [await _document(block, request, known.get(block.number), inputs, io) for block, request in pairs]
    _say_unread(unit.blocks, inputs.settings.values, io)
    io.count_undefined(undefined_text if is_told(inputs.settings.values, io) else None)
    return documents


async def _rehearsed(unit: Unit, io: SessionIO) -> bool:
    """Whether PostgreSQL is going to run the statement: asked before anything is paid."""
    asked = await io.in_parser(rehearsal, unit.template, unit.marks, unit.types)
    return await rehearse(asked, io, alone=unit.alone)


async def _remember(name: str, made: Made, io: SessionIO) -> None:
    """Note a PREPARE, unless the name is taken: then the PREPARE is about to fail and the older statement stays."""
    if await probes.prepared_text(io, name) is None:
        io.prepared[name] = made


async def _inputs(
    unit: Unit, bind: BoundParams | None, io: SessionIO, values: Mapping[int, str | None] | None = None
) -> Inputs:
    settings = unit.settings or await probes.settings(io)
    if unknown(settings.values.get("dp.notices")):
        raise refusals.notices(str(settings.values["dp.notices"]))
    if odd_division(settings.division):
        raise refusals.division(str(settings.division))
    if unit.meaning is not None:
        await _check_meaning(unit.meaning, unit.blocks, settings, io)
    if values is None:
        needed = frozenset().union(*(block.parameters() for block in unit.blocks))
        values = await probes.parameter_values(io, needed, bind, unit.oids, unit.types)
    constants = await io.in_parser(probes.constants, values, unit.types) if values else {}
    deadline = None if settings.timeout is None else asyncio.get_running_loop().time() + settings.timeout
    return Inputs(settings, constants, bind or (), unit.oids, deadline)


def styles(io: SessionIO) -> tuple[str | None, ...]:
    """The settings that give text constants their meaning, as the facade last reported them."""
    return tuple(io.parameter_status(name) for name in STYLES)


async def _check_meaning(meaning: Meaning, blocks: Sequence[Block], settings: probes.Settings, io: SessionIO) -> None:
    """A prepared statement asks what it asked when it was prepared, or nothing."""
    if styles(io) != meaning.styles and any(isinstance(block, QueryBlock) and block.literal() for block in blocks):
        pairs = zip(STYLES, meaning.styles, styles(io), strict=True)
        raise refusals.meaning_changed(next(name for name, before, now in pairs if before != now))
    if settings.path != meaning.path:
        facts = await probes.resolve(io, meaning.candidates, meaning.names)
        if facts.relations != meaning.relations:
            raise refusals.meaning_changed("search_path")


async def _evaluated(unit: Unit, execute: Execution, io: SessionIO) -> Inputs:
    """EXECUTE's arguments, evaluated on the facade, in place of bound parameters."""
    texts = [] if execute.evaluate is None else probes.scalars(await io.fetch(execute.evaluate))
    inputs = await _inputs(unit, None, io, dict(enumerate(texts, 1)))
    inputs.params = execute.arguments = texts
    return inputs


def _asks(block: Block) -> bool:
    """Whether the block is a request to the engine, rather than a view or a look-up."""
    return isinstance(block, QueryBlock) or (isinstance(block, CallBlock) and block.asked is None)


def _pays(block: Block) -> bool:
    return _asks(block) and not (isinstance(block, CallBlock) and block.free)


async def _blaming(
    block: Block, request: dict[str, Any], call: Awaitable[dict[str, Any]], io: SessionIO
) -> dict[str, Any]:
    """Await a call of the engine; its refusal of a part gets that part's place in the client's statement."""
    try:
        return await call
    except Refusal as refusal:
        if isinstance(block, QueryBlock) and refusal.detail is not None:
            refusal.position = await io.in_parser(block.blamed, request, refusal.detail)
        elif isinstance(block, QueryBlock) and refusal.sqlstate == refusals.SHAPE and answered_from(request):
            refusal.position = await io.in_parser(block.beyond_one)
        raise


async def _workloads(
    blocks: Sequence[Block],
    requests: Mapping[int, Any],
    plans: Mapping[int, Mapping[str, Any]],
    inputs: Inputs,
    io: SessionIO,
) -> list[Together]:
    """The arms that one call answers no worse than each alone, the call's request and its plan. Charges nothing."""
    groups = dict.fromkeys(block.workload for block in blocks if isinstance(block, QueryBlock) and block.workload)
    found: list[Together] = []
    for workload in groups if workloads.wanted(inputs.settings.values) else ():
        alone = [plans[arm.number] for arm in workload.arms]
        different = len({json.dumps(requests[arm.number]) for arm in workload.arms})
        budget = workloads.price(inputs.settings.values, alone, different)
        if budget is None:
            continue
        try:
            whole = await io.in_parser(workload.request, inputs.constants, inputs.settings.values, budget)
            plan = await io.upstream.plan(whole)
        except Refusal:  # too many arms for one call, for example: each is asked alone
            continue
        if workloads.better(plan, alone):
            found.append((workload, whole, plan))
    return found


async def _answered(workload: Arms, whole: dict[str, Any], inputs: Inputs, io: SessionIO) -> dict[int, dict[str, Any]]:
    """One call's answer as that of each arm, by the arm's number. This charges."""
    answer = await io.upstream.query(whole, timeout=_left(inputs), heard=_heard(inputs, io))
    io.last.note(answer)
    if any(len(row) != workload.width for row in answer.get("rows") or [()]):
        raise refusals.broken("a row of the wrong width")
    _notify(answer.get("notice") or {}, inputs.settings.values, io)
    return {arm.number: part for arm, part in workload.parts(answer)}


async def _document(
    block: Block, request: dict[str, Any] | None, known: dict[str, Any] | None, inputs: Inputs, io: SessionIO
) -> str:
    """known: the answer, where it came with that of other blocks."""
    if isinstance(block, EmptyBlock):
        return NOTHING
    if isinstance(block, ViewBlock):
        return document([tuple(row) for row in await _view(block, io)])
    if isinstance(block, CallBlock) and block.asked is not None:
        (argument,) = (await io.fetch(block.sql, inputs.params, inputs.oids))[0]
        return encode([value for row in await io.upstream.rows(block.asked, [argument]) for value in row])
    if request is None:
        raise refusals.broken("no request")
    if isinstance(block, CallBlock) and block.free:
        return encode(await io.upstream.plan(request))
    answer = known
    if answer is None:
        asked = io.upstream.query(request, timeout=_left(inputs), heard=_heard(inputs, io))
        answer = await _blaming(block, request, asked, io)
        io.last.note(answer)
    rows = answer.get("rows")
    if not isinstance(rows, list):
        raise refusals.broken("no rows")
    if isinstance(block, QueryBlock):
        check_width(block, rows)
        if block.bars:
            rows = with_bars(block.bars, block.types, rows, answer.get("bars"), answer.get("decisions"))
    _notify(answer.get("notice") or {}, inputs.settings.values, io)
    return document(rows) if isinstance(block, QueryBlock) else encode(answer)


async def _view(block: ViewBlock, io: SessionIO) -> list[tuple[Any, ...]]:
    """Rows of a view of schema dp, every value text."""
    if (block.relation.schema, block.relation.name) != LAST_ANSWER:
        return await io.upstream.rows(block.sql)
    last = io.last.answer
    return [] if last is None else [tuple(_text(last.get(name)) for name in block.relation.columns)]


def _text(value: Any) -> str | None:
    """A member of an answer as the text of a column: of jsonb, where it is no text itself."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


async def _request(block: Block, inputs: Inputs, io: SessionIO) -> dict[str, Any]:
    if isinstance(block, QueryBlock):
        known = block.known(inputs.settings.values)
        if known is not None:
            return known
        return await io.in_parser(block.request, inputs.constants, inputs.settings.values)
    if not isinstance(block, CallBlock):
        raise refusals.broken("no call")
    rows = await io.fetch(block.sql, inputs.params, inputs.oids)
    if not rows or rows[0][0] is None:
        raise refusals.shape(f"{block.function}() was called with NULL for its relation", "name the relation")
    request: dict[str, Any] = json.loads(rows[0][0])
    if block.queries and (cells := workloads.cells(request)) > workloads.MOST_CELLS:
        raise refusals.cells(cells, workloads.MOST_CELLS)
    if "of" in request and request["of"] is None:  # about the session's last release, of which the facade knows nothing
        request["of"] = io.last.release
    return request


def _left(inputs: Inputs) -> float | None:
    """Seconds of statement_timeout that remain; it bounds the wait, not the charge (composition.md §10.3)."""
    if inputs.deadline is None:
        return None
    return max(0.001, inputs.deadline - asyncio.get_running_loop().time())


def _notify(notice: Mapping[str, Any], settings: Mapping[str, Any], io: SessionIO) -> None:
    if notice and is_told(settings, io):
        io.notice("NOTICE", notice_text(notice))
        for warning in warnings_of(notice):
            io.notice("NOTICE", f"dp: {warning}")


def _heard(inputs: Inputs, io: SessionIO) -> Callable[[str], None] | None:
    """What tells this client how far long work is; None: it is told nothing."""
    return partial(io.notice, "NOTICE") if is_told(inputs.settings.values, io) else None


def _say_unread(blocks: Sequence[Block], settings: Mapping[str, Any], io: SessionIO) -> None:
    named = dict.fromkeys(block.relation.name for block in blocks if isinstance(block, EmptyBlock))
    if named and is_told(settings, io):
        io.notice("NOTICE", unread_text(list(named)))


def is_told(settings: Mapping[str, Any], io: SessionIO) -> bool:
    """Whether this client is told in NOTICEs."""
    name = settings.get("application_name") or io.parameter_status("application_name")
    return wanted(settings.get("dp.notices"), name)


async def _explain(unit: Unit, inputs: Inputs, io: SessionIO) -> str:
    requests = {block.number: await _request(block, inputs, io) for block in unit.blocks if _asks(block)}
    plans: dict[int, Mapping[str, Any]] = {}
    for block in unit.blocks:
        if block.number in requests:
            request = requests[block.number]
            plans[block.number] = await _blaming(block, request, io.upstream.plan(request), io)
    joined: dict[int, Explained] = {}
    first = 1 + len(unit.oids)
    for workload, whole, plan in await _workloads(unit.blocks, requests, plans, inputs, io):
        numbers = [arm.number for arm in workload.arms]
        place = first + [block.number for block in unit.blocks].index(numbers[0])
        joined |= {number: (f"answered with ${place}", {"charge": "nothing more"}) for number in numbers[1:]}
        joined[numbers[0]] = call_text(whole), plan
    found = [joined.get(block.number) or _explained(block, requests, plans) for block in unit.blocks]
    writer = DOCUMENTS.get(unit.explained or "")
    undefined = division_fact(inputs.settings.division) if unit.guarded else None
    text = lines(found, unit.shown, first, undefined) if writer is None else [writer(found, unit.shown, undefined)]
    if not is_plain(io.parameter_status("client_encoding")):
        text = [in_ascii(line) for line in text]
    return document([(line,) for line in text])


def _explained(block: Block, requests: Mapping[int, Any], plans: Mapping[int, Mapping[str, Any]]) -> Explained:
    """What is asked for a block, and the public facts of it."""
    if isinstance(block, ViewBlock):
        words = "no rows of" if isinstance(block, EmptyBlock) else "view"
        return f"{words} {block.relation.schema}.{block.relation.name}", {"charge": "nothing"}
    if isinstance(block, CallBlock) and block.asked is not None:
        return block.function, {"charge": "nothing"}
    request = requests[block.number]
    dry = {"charge": "nothing"} if isinstance(block, CallBlock) and block.free else {}
    return call_text(request), {**answered_from(request), **plans[block.number], **dry}
