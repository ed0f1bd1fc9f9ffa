"""What the compiler accepts, as data: every name with argument types, and what of PostgreSQL stands for it.

Type names are PostgreSQL's. An argument of another type is accepted where PostgreSQL converts it to one of these. Tests
hold that every row exists in the catalogs, that PostgreSQL takes it for what is written here, and that the
generated SQL gives PostgreSQL's own results (tests/sql/test_differential.py).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from pg_epsilon.query.arithmetic import OPERATORS
from pg_epsilon.query.compare import COMPARISONS


class Form(NamedTuple):
    """A function or an operator with argument types, and the signature of what is generated for it.

    constant: between constants only, which PostgreSQL evaluates itself; moved: or of a date or time of a row and a
    constant (shifts.py). generated: a name of pg_catalog with types.
    """

    name: str
    arguments: tuple[str, ...]
    generated: str
    constant: bool = False
    moved: bool = False

    @property
    def signature(self) -> str:
        """The form itself as PostgreSQL writes signatures."""
        return _signature(self.name, self.arguments)


class Cast(NamedTuple):
    """A conversion of a column. by_text: PostgreSQL's is output and input, so that pg_cast has no row of it."""

    source: str
    target: str
    by_text: bool = False


def _signature(name: str, arguments: tuple[str, ...]) -> str:
    return f"{name}({','.join(arguments)})"


def _arguments(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


INTEGERS = ("int2", "int4", "int8")
FLOATS = ("float4", "float8")
_STRINGS, _MOMENTS = ("text", "bpchar"), ("timestamp", "timestamptz")
_PLAIN = ("bool", "bpchar", "date", "interval", "numeric", "text", "time", "timestamp", "timestamptz", "uuid")
_ROUNDED, _CUT, _TRIMMED = ("numeric", "float8"), ("text,int4",), ("text", "text,text")
_PARTS = ("text,date", "text,timestamp", "text,timestamptz", "text,time")
_SAME_INTEGERS = tuple(f"{one},{one}" for one in INTEGERS)

# name: (arguments of each form, what is generated where it is not the form itself)
_FUNCTIONS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "abs": ((*INTEGERS, "numeric", *FLOATS), dict.fromkeys(INTEGERS, "abs(numeric)")),
    "btrim": (_TRIMMED, {}),
    "ceil": (_ROUNDED, {}),
    "ceiling": (_ROUNDED, {one: f"ceil({one})" for one in _ROUNDED}),
    "char_length": (_STRINGS, {one: f"length({one})" for one in _STRINGS}),
    "character_length": (_STRINGS, {one: f"length({one})" for one in _STRINGS}),
    "date": (_MOMENTS, {}),
    "date_bin": (("interval,timestamp,timestamp", "interval,timestamptz,timestamptz"), {}),
    "date_part": (_PARTS, {"text,date": "extract(text,date)"}),
    "date_trunc": (("text,timestamp", "text,timestamptz", "text,timestamptz,text"), {}),
    "div": (("numeric,numeric",), {}),
    "extract": (_PARTS, {}),
    "floor": (_ROUNDED, {}),
    "isfinite": (("date", *_MOMENTS), {}),
    "left": (_CUT, {}),
    "length": (_STRINGS, {}),
    "lower": (("text",), {}),
    "ltrim": (_TRIMMED, {}),
    "mod": ((*_SAME_INTEGERS, "numeric,numeric"), {}),
    "now": (("",), {}),
    "octet_length": (_STRINGS, {}),
    "position": (("text,text",), {"text,text": "strpos(text,text)"}),
    "right": (_CUT, {}),
    "round": ((*_ROUNDED, "numeric,int4"), {}),
    "rtrim": (_TRIMMED, {}),
    "sign": (_ROUNDED, {}),
    "starts_with": (("text,text",), {}),
    "strpos": (("text,text",), {}),
    "substr": (("text,int4", "text,int4,int4"), {}),
    "substring": (("text,int4", "text,int4,int4"), {}),
    "timezone": (("text,timestamp", "text,timestamptz"), {}),
    "transaction_timestamp": (("",), {}),
    "trunc": ((*_ROUNDED, "numeric,int4"), {}),
    "upper": (("text",), {}),
    "width_bucket": (("numeric,numeric,numeric,int4", "float8,float8,float8,int4"), {}),
}
FUNCTION_FORMS = tuple(
    Form(name, _arguments(one), generated.get(one, _signature(name, _arguments(one))))
    for name, (forms, generated) in _FUNCTIONS.items()
    for one in forms
)

# Pairs of types of the six comparisons; an enum's operators are anyenum's.
_COMPARED = (
    *product(INTEGERS, INTEGERS),
    *product(FLOATS, FLOATS),
    *product(("date", *_MOMENTS), repeat=2),
    *((one, one) for one in (*_PLAIN, "anyenum") if one not in ("date", *_MOMENTS)),
)
COMPARISON_FORMS = tuple(Form(name, pair, _signature(name, pair)) for name in sorted(COMPARISONS) for pair in _COMPARED)

# Integers are computed in numeric, where they cannot overflow.
_EXACT = {"/": "div(numeric,numeric)"}
_NUMBERS = tuple(
    Form(name, pair, _EXACT.get(name, f"{name}(numeric,numeric)"))
    for name in sorted(OPERATORS)
    for pair in product(INTEGERS, INTEGERS)
    if name != "%" or pair[0] == pair[1]
) + tuple(Form(name, ("numeric",) * 2, f"{name}(numeric,numeric)") for name in sorted(OPERATORS))
_SPANS = ("date", "timestamp", "timestamptz", "time")
# name: pairs between constants
_FOLDED: dict[str, tuple[str, ...]] = {
    "+": (
        *("date,int4", "int4,date", "date,time", "interval,interval"),
        *(f"{one},interval" for one in _SPANS),
        *(f"interval,{one}" for one in _SPANS if one != "time"),
        *(f"{one},{one}" for one in FLOATS),
    ),
    "-": (
        *("date,int4", "timestamp,timestamp", "timestamptz,timestamptz", "interval,interval"),
        *(f"{one},interval" for one in _SPANS),
        *(f"{one},{one}" for one in FLOATS),
    ),
    "*": ("interval,float8", "float8,interval", *(f"{one},{one}" for one in FLOATS)),
    "/": ("interval,float8", *(f"{one},{one}" for one in FLOATS)),
}


def _is_moved(pair: tuple[str, ...]) -> bool:
    return any(one in _SPANS for one in pair) and any(one in ("int4", "interval") for one in pair)


ARITHMETIC_FORMS = (
    *_NUMBERS,
    Form("-", ("date", "date"), "-(date,date)"),
    *(
        Form(name, _arguments(pair), _signature(name, _arguments(pair)), True, _is_moved(_arguments(pair)))
        for name, pairs in _FOLDED.items()
        for pair in pairs
    ),
    Form("||", ("text", "text"), "||(text,text)", True),
)
SIGN_FORMS = (
    *(
        Form(name, ("none", one), f"{name}(none,{'numeric' if one in INTEGERS else one})")
        for name in "+-"
        for one in (*INTEGERS, "numeric", *FLOATS)
    ),
    Form("-", ("none", "interval"), "-(none,interval)", True),
)
PATTERN_FORMS = tuple(
    Form(name, (one, "text"), f"{name}({one},text)") for name in ("!~~", "!~~*", "~~", "~~*") for one in _STRINGS
)
OPERATOR_FORMS = (*COMPARISON_FORMS, *ARITHMETIC_FORMS, *SIGN_FORMS, *PATTERN_FORMS)

CASTS = (
    *(Cast(a, b) for a in (*INTEGERS, "numeric", *FLOATS) for b in (*INTEGERS, "float8") if a != b),
    *(Cast(a, "numeric") for a in INTEGERS),
    *(Cast(a, "text", by_text=True) for a in (*INTEGERS, "uuid", "anyenum")),
    *(Cast(a, "varchar", by_text=True) for a in (*INTEGERS, "uuid", "anyenum")),
    *(Cast(a, b) for a in ("text", "varchar", "bpchar") for b in ("text", "varchar", "bpchar") if a != b),
    *(Cast("bool", b) for b in ("int4", "text", "varchar")),
    Cast("int4", "bool"),
    *(Cast(a, b) for a in ("date", *_MOMENTS) for b in ("date", *_MOMENTS) if a != b),
)
