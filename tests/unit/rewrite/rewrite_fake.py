"""A client's session without a server: answers descriptions and probes, records what the private side is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rewrite_pairs import NAMES, RESOLVED, TYPES

from pg_epsilon_proxy.rewrite import probes
from pg_epsilon_proxy.rewrite.names import BUILTIN_AGGREGATES
from pg_epsilon_proxy.session.rewriting import BoundParams, Described, FacadeError, Field, Last, Made, Probe, Refusal
from pg_epsilon_proxy.wire.messages import fields_message

INT4, INT8, TEXT = 23, 20, 25
_TYPE_NAMES = {INT4: "integer", INT8: "bigint", TEXT: "text"}
_OIDS = {"bigint": INT8, "text": TEXT, "integer": INT4}


def fields(*columns: tuple[str, int]) -> tuple[Field, ...]:
    """A RowDescription of (name, type OID)."""
    return tuple(Field(name, 0, 0, oid, -1, -1, 0) for name, oid in columns)


class FakeUpstream:
    """Answers every request with its own rows; refuses what `refuse` names."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.planned: list[dict[str, Any]] = []
        self.queries: list[str] = []
        self.timeouts: list[float | None] = []
        self.rows_of: Callable[[dict[str, Any]], list[list[Any]]] = _rows
        self.answer: list[tuple[Any, ...]] = [("census", "0.9")]
        self.refuse_at: int | None = None
        self.bars: Any = None
        self.decisions: Any = None
        self.more: dict[str, Any] = {}

    async def query(self, request: dict[str, Any], *, timeout: Any = None, heard: Any = None) -> Any:  # noqa: ASYNC109
        if self.refuse_at == len(self.requests):
            raise Refusal("DP001", "the budget is exhausted", None, "it's gone")
        self.requests.append(request)
        self.timeouts.append(timeout)
        notice = {"mechanism": "laplace", "charge": {"epsilon": "0.1"}, "margin": 30, "confidence": 0.95}
        rows = self.rows_of(request)
        return {
            "columns": [],
            "rows": rows,
            "notice": notice,
            "bars": self.bars,
            "decisions": self.decisions,
            **self.more,
        }

    async def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        self.planned.append(request)
        return {
            "call": "block",
            "mechanism": "laplace",
            "charge": {"worst": {"epsilon": "0.1"}, "best": {"epsilon": "0"}},
            "margin": 30,
            "confidence": 0.95,
            "left": {"epsilon": "0.9"},
            "warnings": ["groups may be missing"],
            "groups": None,
            "aggregates": [
                {
                    "aggregate": "count",
                    "mechanism": "laplace",
                    "why": "smaller expected error",
                    "candidates": [{"mechanism": "R2T", "expected_error": "31"}],
                }
            ],
        }

    async def rows(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.queries.append(sql)
        return self.answer


def _rows(request: dict[str, Any]) -> list[list[Any]]:
    keys = request.get("keys") or []
    return [[*("x$" for _ in keys), *("7" for _ in request["aggregates"])]]


class FakeIO:
    """SessionIO. shadowed: names that resolve to temporary tables; meant: names without a schema, to these relations;
    parameters: OIDs that describe gives to $n."""

    def __init__(self) -> None:
        self.analyst = "alice"
        self.upstream = FakeUpstream()
        self.prepared: dict[str, Made] = {}
        self.last = Last()
        self.status: dict[str, str] = {"client_encoding": "UTF8", "standard_conforming_strings": "on"}
        self.settings: dict[str, Any] = {"TimeZone": "UTC", "dp.epsilon": "0.1", "application_name": "psql"}
        self.timeout = "0"
        self.path = "public, dp"
        self.open_block = False
        self.shadowed: set[str] = set()
        self.meant: dict[str, tuple[str, str]] = {}
        self.parameters: tuple[int, ...] = ()
        self.texts: dict[str, str] = {}
        self.held: list[tuple[str, tuple[int, ...]]] = []
        self.values = "[]"
        self.request: dict[str, Any] = {"from": {"schema": "public", "name": "adult"}, "aggregates": [1]}
        self.failing: dict[str, str] = {}
        self.failing_at = 0
        self.described: list[str] = []
        self.fetched: list[str] = []
        self.notices: list[tuple[str, ...]] = []
        self.division: str | None = None
        self.says: Callable[[int], str] | None = None

    async def describe(self, sql: str, param_oids: Sequence[int] = ()) -> Described:
        self.described.append(sql)
        for part, sqlstate in self.failing.items():
            if part in sql:
                shown = {"C": sqlstate, "P": str(self.failing_at + 1)}
                raise FacadeError(fields_message(b"E", {k: v.encode() for k, v in shown.items()}), shown)
        if sql.startswith("SELECT CAST(NULL"):
            return Described((), fields(*(("c", INT4) for _ in range(sql.count("NULL")))))
        return Described(self.parameters, self._fields(sql))

    def _fields(self, sql: str) -> tuple[Field, ...]:
        if "dp" in sql and "budget" in sql and '"' in sql:
            return fields(("dataset", TEXT), ("left", TEXT))
        core = sql.removeprefix("SELECT ").split(" FROM ")[0].split(", ")
        return fields(*((name, INT8 if name.startswith("count(") else TEXT) for name in core))

    async def fetch(
        self, sql: str, params: BoundParams | Sequence[str | None] = (), param_oids: Sequence[int] = ()
    ) -> list[list[str | None]]:
        self.fetched.append(sql)
        if sql in self._ANSWERS:
            answered: list[list[str | None]] = getattr(self, self._ANSWERS[sql])(params)
            return answered
        if "_request(" in sql or "to_jsonb(" in sql:
            return [[json.dumps(self.request)]]
        return [[self.values]]

    async def together(self, probes: Sequence[Probe]) -> list[Any]:
        ask = (
            self.describe(probe.sql, probe.param_oids)
            if probe.params is None
            else self.fetch(probe.sql, probe.params, probe.param_oids)
            for probe in probes
        )
        return [await answer for answer in ask]

    _ANSWERS: ClassVar[dict[str, str]] = {
        probes._RESOLVE: "_resolve",
        probes._TYPES: "_types",
        probes._TYPE_NAMES: "_type_names",
        probes._SETTINGS: "_settings",
        probes._PREPARED: "_prepared",
    }

    def _resolve(self, params: Sequence[str]) -> list[list[str | None]]:
        rows: list[list[str | None]] = [["session", None, None, self.path]]
        for number, text in enumerate(json.loads(params[0]), 1):
            parts = [part.strip('"').replace('""', '"') for part in text.split('"."')]
            relation = RESOLVED.get((None, parts[-2] if len(parts) > 1 else None, parts[-1]))
            if parts[-1] in self.shadowed:
                rows.append([str(number), "pg_temp_3", parts[-1], '["age"]'])
            elif parts[-1] in self.meant:
                rows.append([str(number), *self.meant[parts[-1]], None])
            elif relation is not None:
                rows.append([str(number), relation.schema, relation.name, json.dumps(relation.columns)])
        called = set(json.loads(params[1])) & BUILTIN_AGGREGATES
        return rows + [["aggregate", None, name, None] for name in sorted(called)]

    def _types(self, params: Sequence[str]) -> list[list[str | None]]:
        return [[_TYPE_NAMES[int(oid)]] for oid in params[2].strip("{}").split(",")]

    def _type_names(self, params: Sequence[str]) -> list[list[str | None]]:
        return [[_TYPE_NAMES[int(oid)]] for oid in json.loads(params[0])]

    def _settings(self, params: Any) -> list[list[str | None]]:
        return [[json.dumps(self.settings), self.timeout, self.path, self.division]]

    def _prepared(self, params: Sequence[str]) -> list[list[str | None]]:
        return [[self.texts[params[0]]]] if params[0] in self.texts else []

    async def hold(self, sql: str, param_oids: Sequence[int]) -> str:
        self.held.append((sql, tuple(param_oids)))
        return f"_pge_{len(self.held)}"

    async def in_parser(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def parameter_status(self, name: str) -> str | None:
        return self.status.get(name)

    def in_block(self) -> bool:
        return self.open_block

    def outside_block(self) -> bool:
        return not self.open_block

    def count_undefined(self, say: Callable[[int], str] | None) -> None:
        self.says = say

    def notice(
        self, severity: str, message: str, detail: str | None = None, hint: str | None = None, sqlstate: str = "00000"
    ) -> None:
        self.notices.append((severity, message))


__all__ = ["INT4", "INT8", "NAMES", "TEXT", "TYPES", "FakeIO", "fields"]
