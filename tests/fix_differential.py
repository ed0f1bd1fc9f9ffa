"""What the compiler makes of an expression beside what PostgreSQL makes of it, row by row.

Forms of query/accepted.py are filled with columns and constants of every type; a seed says with which. The table holds
NULL, NaN, infinities, padded strings, ends of ranges, leap days, hours of a daylight-saving change, negative zero.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from differential_rules import BY_DESIGN, Design
from fix_hostile import COLUMNS as HOSTILE
from fix_hostile import NOW, Server, folding, scope_of
from pg_epsilon.errors import DPError
from pg_epsilon.query.accepted import CASTS, FUNCTION_FORMS, OPERATOR_FORMS, Cast, Form
from pg_epsilon.query.domain import text_sql
from pg_epsilon.query.expression import Expression, Fold, Kind, Scope, compile_expression
from pg_epsilon.query.schema import Column, ColumnPolicy, Relation

ROWS, BATCH = 48, 60
_STAMPS = (
    *("'infinity'", "'-infinity'", "'4714-11-24 00:00:00 BC'", "'0001-06-01 BC'", "'1969-12-31 23:59:59.999999'"),
    *("'2000-02-29'", "'2024-03-10 02:30'", "'2024-03-10 07:30'", "'2024-11-03 01:30'", "'2024-11-03 05:30'"),
    *("'2024-12-30 00:00'", "'294276-12-31 23:59:59.999999'", "'2023-03-01 12:00:00.5'", "'1883-11-18 12:03:57'"),
)
_TEXTS = ("''", "' '", "'a'", "'A'", "'a  '", "'abc'", "'a%b_c'", r"'a\%'", "'  x  '", "'é'", "'12'", "'ÉÈ straße'")
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: HOSTILE[name] for name in ("i2", "i4", "i8", "n", "np", "nu", "f4", "f8", "b", "tm", "u", "iv")},
    "f8": ("double precision", (*HOSTILE["f8"][1], "0.5", "-2.5", "3.5")),
    "t": ("text", _TEXTS),
    "v": ("varchar(40)", _TEXTS),
    "bp": ("char(6)", ("''", "'a'", "'ab  '", "'é'", "'abcdef'", "'%_'", "'A'")),
    "nm": ("name", ("''", "'a'", "'abc'")),
    "d": (
        "date",
        (
            *("'infinity'", "'-infinity'", "'4714-11-24 BC'", "'0001-01-01 BC'", "'2000-02-29'", "'2024-03-10'"),
            *("'2024-11-03'", "'2020-12-31'", "'294276-12-31'", "'5874897-12-31'", "'1900-01-01'", "'2001-01-01'"),
        ),
    ),
    "ts": ("timestamp", _STAMPS),
    "tz": ("timestamptz", _STAMPS),
    "m": ("public.mood", ("'sad'", "'ok'", "'happy''s \"day\"'")),
}
# type: constants of it as an analyst writes them; the last ones without a type
CONSTANTS: dict[str, tuple[str, ...]] = {
    "int2": ("7::smallint", "(-3)::int2", "smallint '0'"),
    "int4": ("0", "1", "7", "-3", "2147483647", "'5'::int"),
    "int8": ("3000000000", "-9223372036854775808", "2::bigint"),
    "numeric": ("2.5", "-0.50", "1.10", "0.0", "'NaN'::numeric", "'Infinity'::numeric", "99999999999999999999"),
    "float4": ("'0.1'::real", "1.5::float4", "'NaN'::real", "'-0'::real"),
    "float8": ("0.1::float8", "'-Infinity'::float8", "2::double precision", "'-0'::float8", "1e300::float8"),
    "text": ("'a'::text", "'ab '::text", "''::text", "text '12'"),
    "varchar": ("'ab '::varchar", "'a'::varchar(3)", "varchar ' '"),
    "bpchar": ("'ab '::bpchar", "'a'::char(3)", "''::bpchar"),
    "name": ("'a'::name",),
    "bool": ("true", "false", "'t'::bool"),
    "date": ("date '2000-02-29'", "'2024-11-03'::date", "date 'infinity'", "current_date"),
    "timestamp": ("timestamp '2024-03-10 03:30'", "'2000-02-29'::timestamp", "localtimestamp", "timestamp '-infinity'"),
    "timestamptz": ("timestamptz '2024-07-01 12:00+02'", "now()", "'2000-02-29'::timestamptz", "current_timestamp"),
    "time": ("time '12:34:56.789'", "'24:00'::time", "localtime"),
    "interval": ("interval '1 mon'", "'30 days'::interval", "interval '-1 day 2 hours'", "interval '90' minute"),
    "uuid": ("'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid", "uuid '00000000-0000-0000-0000-000000000001'"),
    "anyenum": ("'ok'::mood",),
    "unknown": (
        *("NULL", "''", "'a'", "'ab '", "'5'", "'1.50'", "'NaN'", "'2000-02-29'", "'2024-11-03 01:30'", "'true'"),
        *("'ok'", "'12:00'", "'1 mon'", "'00000000-0000-0000-0000-000000000000'"),
    ),
}
TYPE_OF_COLUMN = {
    "i2": "int2",
    "i4": "int4",
    "i8": "int8",
    "n": "numeric",
    "np": "numeric",
    "nu": "numeric",
    "f4": "float4",
    "f8": "float8",
    "b": "bool",
    "t": "text",
    "v": "varchar",
    "bp": "bpchar",
    "nm": "name",
    "d": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "tm": "time",
    "u": "uuid",
    "m": "anyenum",
    "iv": "interval",
}
LEAVES: dict[str, tuple[str, ...]] = {
    type_: (*(c for c, of in TYPE_OF_COLUMN.items() if of == type_), *constants)
    for type_, constants in CONSTANTS.items()
}
# PostgreSQL's OIDs: what the compiler calls the type
_KINDS = {
    16: Kind.BOOL,
    20: Kind.INT,
    21: Kind.INT,
    23: Kind.INT,
    1700: Kind.NUMERIC,
    700: Kind.FLOAT,
    701: Kind.FLOAT,
    25: Kind.TEXT,
    1043: Kind.TEXT,
    1042: Kind.TEXT,
    1082: Kind.DATE,
    1114: Kind.TIMESTAMP,
    1184: Kind.TIMESTAMPTZ,
    1083: Kind.TIME,
    2950: Kind.UUID,
    1186: Kind.INTERVAL,
}
_FINER = {700: "pg_catalog.float4", 701: "pg_catalog.float8", 1042: "pg_catalog.bpchar", 25: "pg_catalog.text"}
_FINER[1043] = "pg_catalog.text"

_NOW = f"timestamptz '{NOW}'"
_CLOCKS = {
    **dict.fromkeys(("now()", "current_timestamp", "transaction_timestamp()"), f"({_NOW})"),
    "current_date": f"({_NOW})::date",
    "localtimestamp": f"({_NOW})::timestamp",
    "localtime": f"({_NOW})::time",
}
_CLOCK = re.compile("|".join(re.escape(clock) for clock in _CLOCKS))

_ORACLE = """
CREATE FUNCTION public.each_row(shown text) RETURNS TABLE (row_id int, fails boolean, outcome text)
LANGUAGE plpgsql AS $$
BEGIN
  FOR row_id IN SELECT id FROM public.apart ORDER BY id LOOP
    BEGIN
      fails := false;
      EXECUTE format('SELECT %s FROM public.apart WHERE id = %s', shown, row_id) INTO outcome;
    EXCEPTION WHEN OTHERS THEN
      fails := true;
    END;
    RETURN NEXT;
  END LOOP;
END $$
"""


@dataclass
class Found:
    """One expression: refused, unknown to PostgreSQL, or compared; then what differs."""

    text: str
    verdict: str
    sql: str = ""
    functions: frozenset[int] = frozenset()
    operators: frozenset[int] = frozenset()
    wrong: str | None = None
    excused: frozenset[str] = frozenset()
    rows: int = 0


@dataclass
class Bench:
    """Connections with the engine's and the asker's settings, and the scope in which both read the table."""

    engine: psycopg.Connection
    asker: psycopg.Connection
    scope: Scope
    fold: Fold
    designs: Sequence[Design] = BY_DESIGN
    rows: dict[str, frozenset[int]] = field(default_factory=dict)

    def run(self, texts: Iterable[str]) -> list[Found]:
        """Compile and compare every text, in batches."""
        found: list[Found] = []
        batch: list[tuple[str, Expression]] = []
        for text in texts:
            try:
                expression = compile_expression(text, self.scope, self.fold)
                if expression.kind is Kind.OTHER:  # IS NULL is all that works on it
                    found.append(Found(text, "refused"))
                    continue
                batch.append((text, expression))
            except DPError as error:
                assert error.hint or error.sqlstate in ("42703", "42P01"), text
                found.append(Found(text, "refused"))
            if len(batch) == BATCH:
                found += self._compare(batch)
                batch = []
        return found + self._compare(batch)

    def _compare(self, batch: Sequence[tuple[str, Expression]]) -> list[Found]:
        if not batch:
            return []
        shown = [_shown(expression.kind, expression.type, expression.sql) for _, expression in batch]
        try:
            rows = self.engine.execute(f"SELECT id, {', '.join(shown)} FROM public.apart r").fetchall()
        except psycopg.Error as error:
            if len(batch) == 1:
                return [Found(batch[0][0], "compared", batch[0][1].sql, wrong=f"raises {error}")]
            return [found for one in batch for found in self._compare([one])]
        return [
            self._one(text, expression, {row[0]: row[number] for row in rows})
            for number, (text, expression) in enumerate(batch, 1)
        ]

    def _one(self, text: str, expression: Expression, ours: dict[int, str | None]) -> Found:
        found = Found(text, "compared", expression.sql)
        text = _CLOCK.sub(lambda clock: _CLOCKS[clock[0]], text)  # the same moment on both sides
        try:
            oid = self.asker.execute(f"SELECT ({text}) FROM public.apart LIMIT 0").description[0].type_code
        except psycopg.Error:
            found.verdict = "not PostgreSQL's"
            return found
        wrong = [self._type(text, expression, oid)]
        shown = _theirs(oid, text)
        try:
            theirs = dict(self.asker.execute(f"SELECT id, {shown} FROM public.apart").fetchall())
        except psycopg.Error:
            outcomes = self.asker.execute("SELECT * FROM public.each_row(%s)", (shown,)).fetchall()
            theirs = {row: outcome for row, fails, outcome in outcomes if not fails}
        differing = [row for row, value in theirs.items() if ours[row] != value]
        excused = [one for one in self.designs if one.concerns(text, expression.sql)]
        for row in list(differing):
            reasons = {one.name for one in excused if one.condition and row in self._rows(one.condition)}
            if reasons:
                differing.remove(row)
                found.excused |= reasons
        if wrong[0] is not None and (reasons := {one.name for one in excused if one.of_type}):
            wrong, found.excused = [None], found.excused | reasons
        if differing:
            row = differing[0]
            wrong.append(f"row {row}: {ours[row]!r}, not {theirs[row]!r}")
        found.rows = len(theirs)
        found.wrong = next((one for one in wrong if one), None)
        return found

    def _type(self, text: str, expression: Expression, oid: int) -> str | None:
        kind = _KINDS.get(oid, Kind.ENUM)
        name = _FINER.get(oid)
        if expression.kind is kind and name in (None, expression.type.name):
            return None
        return f"type {expression.type.name} ({expression.kind.value}), not {oid}"

    def _rows(self, condition: str) -> frozenset[int]:
        if condition not in self.rows:
            found = self.asker.execute(f"SELECT id FROM public.apart WHERE {condition}").fetchall()
            self.rows[condition] = frozenset(row for (row,) in found)
        return self.rows[condition]

    def resolved(self, texts: Sequence[str]) -> list[tuple[frozenset[int], frozenset[int]]]:
        """The OIDs of functions and of operators that PostgreSQL takes each text for: what a view's rule says."""
        found = []
        for text in texts:
            with self.asker.transaction(force_rollback=True):
                self.asker.execute(f"CREATE TEMPORARY VIEW seen AS SELECT ({text}) AS x FROM public.apart")
                rule = self.asker.execute(
                    "SELECT ARRAY(SELECT DISTINCT m[1]::int FROM regexp_matches(a, ':funcid (\\d+)', 'g') m),"
                    " ARRAY(SELECT DISTINCT m[1]::int FROM regexp_matches(a, ':opno (\\d+)', 'g') m)"
                    " FROM (SELECT ev_action::text AS a FROM pg_rewrite WHERE ev_class = 'seen'::regclass) s"
                ).fetchone()
            assert rule is not None
            found.append((frozenset(rule[0]), frozenset(rule[1])))
        return found


def _shown(kind: Kind, type_: object, sql: str) -> str:
    """The text of a value that equal values share: a group key's own where there is one."""
    if kind is Kind.TIMESTAMPTZ:
        return f"pg_catalog.extract('epoch', {sql})::pg_catalog.text"
    if kind is Kind.BOOL:
        return f"({sql})::pg_catalog.text"
    return text_sql(type_, sql) or f"({sql})::pg_catalog.text"  # type: ignore[arg-type]


def _theirs(oid: int, text: str) -> str:
    if oid == 1184:
        return f"extract('epoch' from ({text}))::text"
    if oid == 1700:
        return f"trim_scale({text})::text"
    if oid in (700, 701):
        return f"(({text}) + 0::{'real' if oid == 700 else 'float8'})::text"
    return f"({text})::text"


@contextmanager
def differential_bench(server: Server, zone: str = "America/New_York") -> Iterator[Bench]:
    """Make the table and connect."""
    with server.connect(path="public") as connection:
        declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
        connection.execute(f"CREATE TABLE apart (id int PRIMARY KEY, {declared})")
        dice = random.Random(1)
        decks = {name: _dealt(values, dice) for name, (_, values) in COLUMNS.items()}
        for row in range(ROWS):
            values = ["NULL" if row == ROWS - 1 else decks[name][row] for name in COLUMNS]
            connection.execute(f"INSERT INTO apart VALUES ({row}, {', '.join(values)})")
        connection.execute(_ORACLE)
    with (
        server.connect() as engine,
        server.connect(zone=zone, path="public") as asker,
        server.connect(zone=zone) as constants,
    ):
        yield Bench(engine, asker, scope_of(_relation(engine)), folding(constants))


def _dealt(values: Sequence[str], dice: random.Random) -> list[str]:
    """Every value about equally often, and NULL now and then, in an order of its own."""
    deck = [(*values, "NULL")[i % (len(values) + 1)] for i in range(ROWS)]
    dice.shuffle(deck)
    return deck


def _relation(connection: psycopg.Connection) -> Relation:
    rows = connection.execute(
        "SELECT a.attname, a.atttypid::int, pg_catalog.format_type(a.atttypid, NULL), a.atttypmod,"
        " (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = a.atttypid)"
        " FROM pg_attribute a WHERE a.attrelid = 'public.apart'::regclass AND a.attnum > 0 ORDER BY a.attnum"
    ).fetchall()
    policy = ColumnPolicy("opaque")
    columns = {
        name: Column(name, oid, type_, typmod, True, None, tuple(labels) if labels else None, policy)
        for name, oid, type_, typmod, labels in rows
    }
    return Relation("public", "apart", 1, columns)


# What a form's argument must be, where not any value of its type goes.
_WORDS = {
    "date_bin": {
        0: ("interval '15 minutes'", "'7 days'", "interval '1.5 seconds'", "'1 day 1 hour'"),
        2: ("'2000-01-03'", "'2024-03-10 02:30:00.25'", "'1970-01-01'"),
    },
    "date_trunc": {0: ("'hour'", "'day'", "'week'", "'month'", "'quarter'", "'year'"), 2: ("'UTC'", "'Asia/Kolkata'")},
    "date_part": {0: ("'day'", "'dow'", "'week'", "'epoch'", "'hour'")},
    "extract": {0: ("'year'", "'isodow'", "'doy'", "'epoch'", "'second'")},
    "timezone": {0: ("'UTC'", "'Asia/Kolkata'", "'America/New_York'")},
    **{name: {1: ("'x '", "'a'", "''")} for name in ("btrim", "ltrim", "rtrim")},
    **{name: {1: ("0", "1", "3", "'2'"), 2: ("0", "2", "'1'")} for name in ("left", "right", "substr", "substring")},
    **{name: {1: ("0", "1", "-2", "'1'")} for name in ("round", "trunc")},
    "width_bucket": {1: ("0", "-5.5", "0::float8"), 2: ("100", "7.25", "90::float8"), 3: ("1", "10")},
    **{name: {1: ("'%a%'", "'A_'", r"'a\%'", "''")} for name in ("~~", "~~*", "!~~", "!~~*")},
}
_LIKE = {"~~": "LIKE", "~~*": "ILIKE", "!~~": "NOT LIKE", "!~~*": "NOT ILIKE"}
# names whose argument of a field is written in these words (date_part keeps its own)
_CLOCK_FIELDS = ("'hour'", "'second'", "'epoch'", "'microseconds'")


def written(form: Form, dice: random.Random) -> str:
    """One expression of a form: each argument a column (mostly) or a constant of its type, or one of no type."""
    words = _WORDS.get(form.name, {})
    arguments = []
    for place, type_ in enumerate(form.arguments):
        if type_ == "none":
            continue
        if place in words:
            choice = words[place]
            if form.name == "width_bucket" and form.arguments[0] == "numeric":  # one of float8 makes it that form
                choice = tuple(one for one in choice if "float8" not in one)
            if place == 0 and form.arguments[-1] == "time":
                choice = _CLOCK_FIELDS
        else:
            columns = [column for column, of in TYPE_OF_COLUMN.items() if of == type_]
            # a sign before a number is part of it
            fixed = form.constant and not (form.moved and type_ not in ("int4", "interval"))
            constants = fixed or ("none" not in form.arguments and dice.random() < 0.4)
            choice = CONSTANTS[type_] if constants or not columns else tuple(columns)
        arguments.append(dice.choice(choice))
    if form.name in ("/", "%", "div", "mod") and len(arguments) == 2 and arguments[1] in TYPE_OF_COLUMN:
        arguments[1] = f"NULLIF({arguments[1]}, 0)"
    if form.name.isidentifier():
        return _call(form, arguments)
    if len(arguments) == 1:
        return f"({form.name} {arguments[0]})"
    return f"({arguments[0]} {_LIKE.get(form.name, form.name)} {arguments[1]})"


def _call(form: Form, arguments: Sequence[str]) -> str:
    if form.name == "extract":
        return f"extract({arguments[0][1:-1]} from {arguments[1]})"
    if form.name == "position":
        return f"position({arguments[1]} in {arguments[0]})"
    return f"{form.name}({', '.join(arguments)})"


def cast_written(cast: Cast, dice: random.Random) -> str:
    """One cast of a column."""
    columns = [column for column, of in TYPE_OF_COLUMN.items() if of == cast.source]
    return f"({dice.choice(columns)})::{cast.target}"


def every_row(bench: Bench, dice: random.Random, tries: int = 25) -> dict[Form | Cast, list[Found]]:
    """For every row of the table, expressions of it until one is compared: what was found of all of them."""
    open_: list[Form | Cast] = [*FUNCTION_FORMS, *OPERATOR_FORMS, *CASTS]
    found: dict[Form | Cast, list[Found]] = {row: [] for row in open_}
    for _ in range(tries):
        texts = {row: cast_written(row, dice) if isinstance(row, Cast) else written(row, dice) for row in open_}
        for one in bench.run(texts.values()):
            for row in (row for row, text in texts.items() if text == one.text):
                found[row].append(one)
        open_ = [row for row in open_ if not any(one.verdict == "compared" for one in found[row])]
    return found


def _value(dice: random.Random, depth: int, type_: str) -> str:
    """An expression whose value is, more or less, of a type."""
    forms = [form for form in FUNCTION_FORMS if _RESULTS.get(form.name) == type_]
    roll = dice.random()
    if depth == 0 or roll < 0.35:
        return dice.choice(LEAVES[type_ if roll < 0.3 else "unknown"])
    inner = [_value(dice, depth - 1, type_) for _ in range(3)]
    if roll < 0.55:
        shape = dice.choice(_SHAPES)
        test = predicate(dice, depth - 1) if "{3}" in shape else ""
        return shape.format(*inner, test)
    if forms and roll < 0.8:
        form = dice.choice(forms)
        return written(form, dice)
    if type_ in ("int4", "int8", "int2", "numeric"):
        return f"({inner[0]} {dice.choice('+-*')} {inner[1]})"
    return f"({_value(dice, depth - 1, dice.choice(list(TYPES)))})::{_CAST_TO.get(type_, type_)}"


_SHAPES = (
    *("coalesce({0}, {1})", "nullif({0}, {1})", "greatest({0}, {1})", "least({0}, {1}, {2})"),
    *("CASE WHEN {3} THEN {0} ELSE {1} END", "CASE {0} WHEN {1} THEN {2} ELSE {0} END"),
)
_TESTS = (
    *("{0} = {1}", "{0} <> {1}", "{0} < {1}", "{0} >= {1}", "{0} IS DISTINCT FROM {1}", "{0} IN ({1}, {2})"),
    *("{0} NOT IN ({1}, {2}, {0})", "{0} BETWEEN {1} AND {2}", "{0} NOT BETWEEN SYMMETRIC {1} AND {2}"),
    *("{0} = ANY (ARRAY[{1}, {2}])", "{0} <> ALL (ARRAY[{1}, {2}])", "{0} IS NULL", "{0} IS NOT NULL"),
)
TYPES = tuple(type_ for type_ in CONSTANTS if type_ != "unknown")
_CAST_TO = {"anyenum": "mood"}
_RESULTS = {
    **dict.fromkeys(("btrim", "left", "lower", "ltrim", "right", "rtrim", "substr", "substring", "upper"), "text"),
    **dict.fromkeys(("char_length", "length", "octet_length", "position", "strpos", "width_bucket"), "int4"),
    **dict.fromkeys(("abs", "ceil", "div", "extract", "floor", "mod", "round", "sign", "trunc"), "numeric"),
    "date": "date",
    "date_bin": "timestamptz",
    "date_part": "float8",
    "date_trunc": "timestamptz",
    "timezone": "timestamp",
    **dict.fromkeys(("isfinite", "starts_with"), "bool"),
}
# Types that an analyst mixes: of one family mostly, else of any.
_FAMILIES = (
    ("int2", "int4", "int8", "numeric", "float4", "float8"),
    ("text", "varchar", "bpchar"),
    ("date", "timestamp", "timestamptz"),
    *((one,) for one in ("time", "interval", "uuid", "anyenum", "bool")),
)


def predicate(dice: random.Random, depth: int) -> str:
    """A condition on values of one family of types."""
    family = dice.choice(_FAMILIES)
    values = [_value(dice, depth, dice.choice(family)) for _ in range(3)]
    test = f"({dice.choice(_TESTS).format(*values)})"
    if depth and dice.random() < 0.2:
        test = f"({test} {dice.choice(('AND', 'OR'))} NOT {predicate(dice, depth - 1)})"
    return test


def wider(dice: random.Random) -> Iterator[str]:
    """Expressions without end: conditions and values, of columns and constants, up to two levels deep."""
    while True:
        depth = dice.choice((0, 0, 1, 2))
        yield predicate(dice, depth) if dice.random() < 0.6 else _value(dice, depth, dice.choice(TYPES))


def compared(bench: Bench, dice: random.Random, wanted: int) -> list[Found]:
    """So many different expressions of `wider` as it takes to compare `wanted`; with those that were refused."""
    texts, found, seen, count = wider(dice), [], set[str](), 0
    while count < wanted:
        batch = [text for _ in range(500) if (text := next(texts)) not in seen and not seen.add(text)]  # type: ignore[func-returns-value]
        some = bench.run(batch)
        count += sum(one.verdict == "compared" for one in some)
        found += some
    return found
