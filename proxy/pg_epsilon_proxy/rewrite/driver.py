"""The Rewriter of session/rewriting.py: the client's facade session says what names mean (facade-and-channel.md §6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pg_epsilon.query.parse import ast

from ..session.rewriting import Described, FacadeError, Made, Refusal, SessionIO
from ..session.written import AS_IT_IS, Written
from . import buckets, cutting, prepared, probes, refusals, settings, units
from .compile import DIRECT
from .cutting import ENCODING, STRINGS, Asked, Cut, asked_types, attempt, check_encoding, complete, in_parser
from .explain import explain_format
from .kept import MAX_KEPT_TEXT, Bounded, Kept
from .long_texts import deep, named
from .names import Facts, Mentions, Names
from .plans import BlockPlan
from .positions import aligned, location
from .published import PublishedReleases
from .rehearse import keeps
from .runner import styles
from .scope import references, relation_name
from .statements import Statement, body, split
from .tree import function_name, statement, statement_text, walk
from .units import Meaning, Unit

# Longer texts are not cut up: over protected data they are refused, others go to the facade as they are.
MAX_STATEMENT = 524_288
# No tree of a shorter text is deeper, and ours walk trees by recursion; longer texts are looked at.
MAX_DEPTH = 65_536
# The printer knows the MERGE of PostgreSQL 17 only: 15 does not read WHEN NOT MATCHED BY TARGET.
_MERGE_INSTEAD = "keep the answer in a temporary table first, and merge that"
_NOT_KEPT = "run the query itself; CREATE TEMP TABLE ... AS SELECT ... keeps its answer"


@dataclass
class Survey:
    """What the session says of a statement, in one round trip; cut: made while it answered; asked: see Kept."""

    described: Described
    facts: Facts
    settings: probes.Settings | None
    cut: Cut | Exception | None = None
    asked: Asked = field(default_factory=dict)


class SqlRewriter:
    """One object serves all sessions; a policy change replaces it. names: the facade's, of one policy version."""

    def __init__(self, names: Names) -> None:
        self._names = replace(names, functions=names.functions | DIRECT, called=_called(names.expansions.values()))
        self._mentions = Mentions(self._names)
        self._published = PublishedReleases(names)
        self._ours = names.last_parts()
        self._kept: Bounded[Kept] = Bounded()
        self._assumed: Bounded[Facts] = Bounded()

    def mentions(self, sql: str) -> bool:
        ours = self._mentions(sql) or settings.mentioned(sql) or self._published.mentions(sql)
        return ours or buckets.mentioned(sql)

    async def spelled_out(self, sql: str, io: SessionIO) -> Written:
        """Calls of time_bucket in PostgreSQL's own functions. Texts that are not cut up, or not as read, stay."""
        if not buckets.mentioned(sql) or len(sql) > MAX_STATEMENT or io.parameter_status(STRINGS) == "off":
            return AS_IT_IS
        if len(sql) > MAX_DEPTH and await io.in_parser(deep, sql, MAX_DEPTH):
            return AS_IT_IS
        try:
            return await buckets.spelled_out(sql, io, self._ours)
        except RecursionError:
            raise refusals.too_deep() from None
        except Refusal as refusal:
            _unplace(refusal, sql, io)
            raise

    async def plan(self, sql: str, param_oids: Sequence[int], io: SessionIO, *, extended: bool) -> BlockPlan | None:
        """None: forward unchanged. Charges nothing. Errors: Refusal, FacadeError."""
        if len(sql) > MAX_STATEMENT:
            await self._refuse_long(sql, io, refusals.too_long(MAX_STATEMENT))
            return None
        if len(sql) > MAX_DEPTH and await io.in_parser(deep, sql, MAX_DEPTH):
            await self._refuse_long(sql, io, refusals.too_deep())
            return None
        await self._published.say(sql, io)
        try:
            return await self._plan(sql, param_oids, io, extended)
        except Refusal as refusal:
            _unplace(refusal, sql, io)
            raise

    async def _refuse_long(self, sql: str, io: SessionIO, refusal: Refusal) -> None:
        found = await io.in_parser(named, sql, self._names)
        if found and (await probes.resolve(io, found, self._names)).concerned:
            raise refusal

    async def _plan(self, sql: str, param_oids: Sequence[int], io: SessionIO, extended: bool) -> BlockPlan | None:
        key = (io.analyst, sql, tuple(param_oids), extended)
        kept = self._kept.get(key)
        if kept is not None:
            again = await self._again(kept, param_oids, io, now=not extended)
            if again is not None:
                return BlockPlan([again])
            self._kept.drop(key)
        statements = await io.in_parser(split, sql, self._names)
        settings.check(statements or ())
        if statements is None or not any(_relevant(item, io) for item in statements):
            return None
        if len(statements) == 1:
            (item,) = statements
            if not _simple(item):
                unit = await self._unit(item, param_oids, io, extended)
                return None if unit is None else BlockPlan([unit])
            survey = await self._guessed(item, param_oids, io, now=not extended)
            unit = await self._planned(item, item.node, survey, io, extended)
            if unit is not None and unit.refused is None and len(sql) <= MAX_KEPT_TEXT:
                self._keep(key, item, survey, unit)
            return None if unit is None else BlockPlan([unit])
        # PostgreSQL refuses several statements in one Parse by itself.
        return None if extended else await self._message(statements, io)

    # -- statements seen before ---------------------------------------------------------------------------------

    def _keep(self, key: tuple[Any, ...], item: Statement, survey: Survey, unit: Unit) -> None:
        kept = replace(units.again(unit), settings=None)
        bare = replace(item, node=None)
        self._kept.put(key, Kept(bare, survey.described, survey.facts, survey.asked, kept), len(item.source))

    async def _again(self, kept: Kept, oids: Sequence[int], io: SessionIO, *, now: bool) -> Unit | None:
        """The kept plan, if the session says the same of the statement as before; None: plan it anew."""
        survey = await self._survey(kept.item, oids, io, now=now)
        if (survey.described, survey.facts) != (kept.described, kept.facts):
            return None
        check_encoding(kept.item.text, *_reading(survey.facts, io))
        if kept.asked and await asked_types(kept.unit.blocks, survey.described.param_oids, io) != kept.asked:
            return None
        unit = units.again(kept.unit)
        unit.settings = survey.settings
        return await self._meant(unit, kept.item, survey.facts, survey.described.param_oids, io)

    async def _guessed(self, item: Statement, oids: Sequence[int], io: SessionIO, *, now: bool) -> Survey:
        """Survey, and compile meanwhile as if names meant what they meant last: a guess that fails is thrown away."""
        key = (io.analyst, item.candidates)
        assumed = self._assumed.get(key)
        guess = None
        if assumed is not None and "$" not in item.text:
            arguments = (item.node, item, assumed, (), *_reading(assumed, io))
            guess = asyncio.ensure_future(io.in_parser(attempt, *arguments))
        try:
            survey = await self._survey(item, oids, io, now=now)
            if guess is not None:
                survey.cut = await guess
        except BaseException:
            if guess is not None:
                guess.cancel()
            raise
        if guess is not None and (survey.facts != assumed or survey.described.param_oids):
            survey.cut = None
            (fresh,) = await io.in_parser(split, item.source, self._names) or [item]
            item.node = fresh.node
        self._assumed.put(key, survey.facts)
        return survey

    async def _survey(self, item: Statement, oids: Sequence[int], io: SessionIO, *, now: bool = False) -> Survey:
        await probes.refuse_left_out(io, item.text, item.candidates, self._names)
        try:
            return Survey(*await probes.survey(io, item.text, oids, item.candidates, self._names, now=now))
        except FacadeError as error:
            place = error.position
            raise error.placed(None if place is None else place + item.start) from None

    async def _message(self, statements: list[Statement], io: SessionIO) -> BlockPlan | None:
        """Several statements of one simple Query: plan until the first that fails, which then fails where it stands."""
        ours = await self._before_control(statements, io) if io.in_block() else len(statements)
        found: list[Unit] = []
        blocks = False
        for index, item in enumerate(statements):
            try:
                unit = await self._unit(item, (), io, False) if index < ours and _relevant(item, io) else None
            except Refusal as refusal:
                if index == 0:
                    raise
                found.append(_plain(units.raised(refusal)))
                found[-1].refusal = refusal
                blocks = True
                break
            except FacadeError:
                if not any(earlier.transaction for earlier in statements[:index]):
                    raise
                # The message opens or ends a transaction first: PostgreSQL must meet the error in its own place.
                found += [_plain(rest.text) for rest in statements[index:]]
                break
            if unit is not None and not all(earlier.may_precede for earlier in statements[:index]):
                raise refusals.alone(_place(item))
            blocks = blocks or unit is not None
            found.append(replace(unit, alone=False) if unit is not None else _plain(item.text))
        return BlockPlan(found) if blocks else None

    async def _before_control(self, statements: list[Statement], io: SessionIO) -> int:
        """Refuse transaction control before a block while the client's transaction is open.

        Returns how many statements precede the first transaction control: those behind it are none of ours.

        Such a block would be planned, and its names resolved, in the transaction that the message is about to end; a
        probe that fails there aborts it, and the COMMIT before it would never be reached. The message is refused as a
        whole, as PostgreSQL refuses one with a syntax error anywhere in it: the transaction fails, nothing has run.
        """
        control = next((index for index, item in enumerate(statements) if item.transaction), len(statements))
        for item in statements[control + 1 :]:
            if item.executes in io.prepared:
                raise refusals.alone(_place(item))
            if item.candidates:
                facts = await probes.resolve(io, item.candidates, self._names)
                if facts.concerned:
                    raise refusals.alone(_place(item))
        return control

    # -- one statement ------------------------------------------------------------------------------------------

    async def _unit(self, item: Statement, param_oids: Sequence[int], io: SessionIO, extended: bool) -> Unit | None:
        made = await prepared.noted(item.executes, io)
        if made is not None:
            return await prepared.execution(item, made, io, self._whole)
        if item.treatment in ("other", "execute") or not item.candidates:
            return None
        await probes.refuse_left_out(io, item.text, item.candidates, self._names)
        if item.treatment == "refuse":
            await self._refuse(item, io)
            return None
        if item.treatment == "prepare":
            return await self._prepare(item, io)
        if item.treatment == "copy":
            return await self._copy(item, io)
        if isinstance(item.node, ast.CreateTableAsStmt) and item.node.into and item.node.into.skipData:
            return None  # WITH NO DATA reads nothing
        target = item.node.query if item.treatment == "explain" else item.node
        return await self._planned(item, target, await self._survey(item, param_oids, io), io, extended)

    async def _planned(
        self, item: Statement, target: Any, survey: Survey, io: SessionIO, extended: bool
    ) -> Unit | None:
        described = survey.described
        if described.param_oids and not extended:
            # "there is no parameter $1": PostgreSQL's own answer to a simple Query.
            return None
        try:
            unit = await self._spliced(target, item, described.param_oids, io, survey)
        except Refusal as refusal:
            if not extended or refusal.sqlstate != refusals.RAW_ACCESS or target is not item.node:
                raise
            # Its columns are published: drivers ask for them before they decide whether to run it.
            return units.refused(item.source, described, refusal)
        if unit is not None and isinstance(target, ast.MergeStmt):
            raise refusals.shape("MERGE cannot use a query over protected data", _MERGE_INSTEAD, target)
        if unit is not None and item.treatment == "explain":
            unit = units.explained(unit, explain_format(item.node), len(described.param_oids) + 1)
        if unit is not None:
            unit.fields, unit.settings, unit.keeps = described.fields, survey.settings, keeps(item.node)
        return unit

    async def _spliced(
        self, node: Any, item: Statement, oids: Sequence[int], io: SessionIO, survey: Survey | None = None
    ) -> Unit | None:
        """Resolve, compile, type and splice; None if nothing in the statement is ours after all."""
        facts = await probes.resolve(io, item.candidates, self._names) if survey is None else survey.facts
        if not facts.concerned:
            return None
        cut = survey.cut if survey is not None else None
        if cut is None:
            cut = await in_parser(io, attempt, node, item, facts, oids, *_reading(facts, io))
        if isinstance(cut, Exception):
            raise cut
        if not cut.compiled.blocks:
            return None
        asked: Asked = {}
        unit = cut.unit
        if unit is None:
            asked = await asked_types(cut.compiled.blocks, oids, io)
            unit = await in_parser(io, complete, cut.compiled, asked, oids)
        cutting.check_printed(unit.template, _reading(facts, io)[1])
        if survey is not None:
            survey.asked = asked
        return await self._meant(unit, item, facts, oids, io)

    async def _meant(self, unit: Unit, item: Statement, facts: Facts, oids: Sequence[int], io: SessionIO) -> Unit:
        unit.types = await probes.type_names(io, oids)
        unit.meaning = Meaning(styles(io), facts.path, item.candidates, facts.relations, self._names)
        return unit

    async def _refuse(self, item: Statement, io: SessionIO) -> None:
        """A view, rule, function or materialised view that would hold a block."""
        facts = await probes.resolve(io, item.candidates, self._names)
        if facts.concerned:
            raise refusals.shape(
                "a view, rule, function or materialized view cannot hold a query over protected data",
                _NOT_KEPT,
                _reference(item, facts),
            )

    async def _copy(self, item: Statement, io: SessionIO) -> Unit | None:
        """COPY is analysed when it runs, so its query is described by itself; no parameter reaches it.

        To a file or a program of the server is PostgreSQL's to refuse, before anything is charged.
        """
        if item.node.filename is not None or item.node.is_program:
            return None
        described = Described((), None)
        if item.node.query is not None:
            described = await _described(item, (), io, item.node.query)
        if described.param_oids:
            return None
        unit = await self._spliced(item.node, item, (), io)
        if unit is not None:
            unit.text, unit.literal = item.text, True
        return unit

    async def _prepare(self, item: Statement, io: SessionIO) -> Unit | None:
        described = await _described(item, await prepared.declared(item.node, io), io, item.node.query)
        body = await self._spliced(item.node.query, item, described.param_oids, io)
        return None if body is None else units.prepared(item.node.name, item.text, body)

    # -- what was prepared before -------------------------------------------------------------------------------

    async def again(self, made: Made, io: SessionIO) -> BlockPlan | None:
        return await prepared.again(made, io, self._whole)

    async def noted(self, name: str, io: SessionIO) -> Made | None:
        return await prepared.noted(name, io)

    async def _whole(self, sql: str, oids: Sequence[int], io: SessionIO) -> BlockPlan | None:
        return await self._plan(sql, oids, io, True)


async def _described(item: Statement, oids: Sequence[int], io: SessionIO, inner: Any = None) -> Described:
    """Describe the statement, or the query inside it; an error's position is moved to the client's whole text."""
    text = item.text if inner is None else await in_parser(io, statement_text, inner)
    try:
        return await io.describe(text, oids)
    except FacadeError as error:
        place = error.position
        if place is not None and inner is None:
            place += item.start
        elif place is not None:
            span = (item.start, item.start + len(item.text))
            place = await io.in_parser(aligned, text, place, item.source, span)
        raise error.placed(place) from None


def _unplace(refusal: Refusal, sql: str, io: SessionIO) -> None:
    """Take away the place where what we took for characters may be bytes."""
    if not sql.isascii() and io.parameter_status(ENCODING) not in (None, "UTF8"):
        refusal.position = None


def _simple(item: Statement) -> bool:
    """Whether a statement alone in its message is planned by what its text and the survey say, and nothing else."""
    kinds = ast.SelectStmt | ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt
    return bool(item.candidates) and item.treatment == "plain" and isinstance(item.node, kinds)


def _reading(facts: Facts, io: SessionIO) -> tuple[str | None, str | None]:
    """What says how PostgreSQL reads the bytes of constants."""
    return facts.strings or io.parameter_status(STRINGS), facts.encoding or io.parameter_status(ENCODING)


def _relevant(item: Statement, io: SessionIO) -> bool:
    return bool(item.candidates) or item.executes in io.prepared


def _place(item: Statement) -> int:
    place = location(item.node)
    return item.start if place is None else place


def _reference(item: Statement, facts: Facts) -> Any:
    """The first name in the statement that is ours, or all of the statement."""
    found = (node for node in references(body(item.node)) if relation_name(node) in facts.relations)
    return next(found, item.node)


def _called(texts: Iterable[str]) -> frozenset[str]:
    """The functions that the texts of published views call."""
    calls = (node for text in texts for node in walk(statement(text)) if isinstance(node, ast.FuncCall))
    return frozenset(function_name(call)[-1] for call in calls)


def _plain(text: str) -> Unit:
    return Unit(text=text, template=text)


__all__ = ["Facts", "Names", "SqlRewriter"]
