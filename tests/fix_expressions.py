"""Generators of expressions over the hostile table: well-typed predicates, and anything on anything."""

from __future__ import annotations

from hypothesis import strategies as st

_INTS = ["i2", "i4", "i8", "0", "1", "-1", "7", "-32768", "2147483647", "9223372036854775807", "NULL"]
_EXACT = [*_INTS, "n", "np", "1.50", "-0.001", "99999999999999999999"]
_TEXTS = ["t", "v", "bp", "'a'", "'A'", "''", "'é'", "NULL", "' x '", "'ab '::varchar", "'a  '::bpchar", "'ab '::text"]
_STAMPS = [
    "ts",
    "tz",
    "d",
    "'2000-02-29'",
    "timestamp '2010-06-01 12:00'",
    "date '2024-03-10'",
    "now()",
    "current_date",
]
_SPANS = ["1 day", "4 hours", "-1 month", "13 months -1 day", "9999 years", "1 month -1 day -0.5 seconds"]
_COMPARE = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
_UNITS = ["day", "hour", "week", "month", "quarter", "year", "century", "millennium", "second"]
_FIELDS = ["year", "month", "day", "dow", "doy", "week", "isoyear", "epoch", "quarter", "julian", "hour"]
_one = st.sampled_from


def _join(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda values: pattern.format(*values))


def numbers() -> st.SearchStrategy[str]:
    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            _join("({} {} {})", inner, _one("+-*"), inner),
            _join("({} {} NULLIF({}, 0))", inner, _one("/%"), inner),
            _join("({} {} {})", inner, _one("/%"), _one(["7", "-3", "2.5", "0.01"])),
            _join("{}({})", _one(["-", "abs", "+"]), inner),
            _join("{}(n, {})", _one(["round", "trunc"]), _one(["0", "1", "-2"])),
            _join("coalesce({}, {})", inner, inner),
            _join("{}({}, {})", _one(["greatest", "least", "nullif"]), inner, inner),
            _join("div({}, {})", inner, _one(["7", "-3", "2.5", "NULLIF(i2, 0)"])),
            _join("CASE WHEN {} > {} THEN {} ELSE {} END", inner, inner, inner, inner),
            _join("{}({})", _one(["length", "octet_length"]), texts()),
            _join("extract({} from {})", _one(_FIELDS), _one(["d", "ts", "tz"])),
            _join("({})::{}", inner, _one(["int", "bigint", "smallint", "numeric"])),
            _join("width_bucket({}, 0, 100, 10)", _one(["n", "i4", "np", "nu", "i8"])),
        )

    return st.recursive(_one(_EXACT), grow, max_leaves=6)


def texts() -> st.SearchStrategy[str]:
    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            _join("{}({})", _one(["lower", "upper", "btrim", "ltrim", "rtrim"]), inner),
            _join("{}({}, {})", _one(["left", "right", "substr"]), inner, _one(["0", "1", "3", "2147483647"])),
            _join("substring({} from {} for {})", inner, _one("013"), _one("025")),
            _join("trim(both {} from {})", _one(["'x'", "' '", "''", "'é '"]), inner),
            _join("coalesce({}, {})", inner, inner),
            _join("CASE {} WHEN {} THEN {} ELSE {} END", inner, inner, inner, inner),
            _join("{}({}, {})", _one(["greatest", "least", "nullif"]), inner, inner),
            _join("({})::{}", inner, _one(["text", "varchar", "bpchar"])),
            _join("({})::text", _one(["i4", "b", "u", "m", "bp"])),
        )

    return st.recursive(_one(_TEXTS), grow, max_leaves=4)


def stamps() -> st.SearchStrategy[str]:
    return st.one_of(
        _one(_STAMPS),
        _join("date_trunc('{}', {})", _one(_UNITS), _one(["d", "ts", "tz"])),
        _join("({})::{}", _one(["ts", "tz", "d"]), _one(["date", "timestamp", "timestamptz"])),
        _join("({} AT TIME ZONE 'Asia/Kolkata')", _one(["ts", "tz"])),
        _join("(now() - interval '{} days')", st.integers(0, 9999).map(str)),
        _join("({} {} interval '{}')", _one(["ts", "tz", "d"]), _one("+-"), _one(_SPANS)),
        _join("(d {} {})", _one("+-"), st.integers(-9999, 3_660_000).map(str)),
    )


def predicates() -> st.SearchStrategy[str]:
    comparison = st.one_of(
        _join("({} {} {})", numbers(), _one(_COMPARE), numbers()),
        _join("({} {} {})", _one(["f8", "f4"]), _one(_COMPARE), _one([*_INTS, "f8", "f4", "0.1", "'NaN'", "n"])),
        _join("({} {} {})", texts(), _one(_COMPARE), texts()),
        _join("({} {} {})", stamps(), _one(_COMPARE), stamps()),
        _join(
            "({} {} {})",
            texts(),
            _one(["LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"]),
            _one(["'%a%'", "'A_'", "'!%' ESCAPE '!'", r"'\%%'", "''", "'%É%ß%'"]),
        ),
        _join("({} {} ({}, {}, {}))", texts(), _one(["IN", "NOT IN"]), *[_one(_TEXTS)] * 3),
        _join("({} {} (ARRAY[{}, {}]))", texts(), _one(["= ANY", "<> ALL"]), *[_one(_TEXTS[3:])] * 2),
        _join("({} {} ({}, {}, {}))", numbers(), _one(["IN", "NOT IN"]), *[_one(_EXACT)] * 3),
        _join(
            "({} {} {} AND {})", numbers(), _one(["BETWEEN", "NOT BETWEEN", "BETWEEN SYMMETRIC"]), *[_one(_EXACT)] * 2
        ),
        _join("({} IS {}NULL)", st.one_of(numbers(), texts(), _one(["ja", "tn", "iv"])), _one(["", "NOT "])),
        _one(["b", "m = 'ok'", "u > '00000000000000000000000000000000'", "tm < '12:00'", "iv < '1 mon'", "tn = 'aÉ'"]),
    )

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            _join("({} AND {})", inner, inner),
            _join("({} OR {})", inner, inner),
            _join("(NOT {})", inner),
            _join("({} IS {})", inner, _one(["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN"])),
        )

    return st.recursive(comparison, grow, max_leaves=4)


def wild() -> st.SearchStrategy[str]:
    """Any function and operator on anything: nearly all are refused, none may slip through and raise."""
    columns = [
        "i2",
        "i4",
        "i8",
        "n",
        "np",
        "nu",
        "f4",
        "f8",
        "b",
        "t",
        "v",
        "bp",
        "tc",
        "tn",
        "d",
        "ts",
        "tz",
        "tm",
        "u",
        "m",
        "iv",
        "ja",
        "NULL",
        "'a'",
        "1",
        "-1",
        "0",
        "1.5",
        "'2000-02-29'",
        "true",
        "'month'",
        "1e400",
    ]
    functions = [
        "abs",
        "lower",
        "length",
        "floor",
        "round",
        "sign",
        "trunc",
        "date_trunc",
        "date_part",
        "substr",
        "left",
        "width_bucket",
        "mod",
        "div",
        "strpos",
        "date",
        "isfinite",
        "timezone",
        "sqrt",
        "octet_length",
        "btrim",
        "to_char",
        "repeat",
        "coalesce",
        "nullif",
        "greatest",
        "now",
        "pg_catalog.lower",
        "public.lower",
    ]
    operators = ["=", "<", "<>", "+", "-", "*", "/", "%", "LIKE", "ILIKE", "AND", "OR", "||", "^", "IS DISTINCT FROM"]

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        types = [
            "int",
            "smallint",
            "bigint",
            "numeric",
            "float8",
            "real",
            "text",
            "date",
            "timestamp",
            "timestamptz",
            "bool",
            "uuid",
            "mood",
            "interval",
            "time",
            "varchar(2)",
            "int[]",
        ]
        return st.one_of(
            _join("({} {} {})", inner, _one(operators), inner),
            _join("{}({})", _one(functions), inner),
            _join("{}({}, {})", _one(functions), inner, inner),
            _join("{}({}, {}, {})", _one(functions), inner, inner, inner),
            _join("({})::{}", inner, _one(types)),
            _join("extract({} from {})", _one(_FIELDS), inner),
            _join("CASE WHEN {} THEN {} ELSE {} END", inner, inner, inner),
            _join("({} IN ({}, {}))", inner, inner, inner),
            _join("({} BETWEEN {} AND {})", inner, inner, inner),
            _join("({} = ANY ('{{1,2,NULL}}'))", inner),
        )

    return st.recursive(_one(columns), grow, max_leaves=6)
