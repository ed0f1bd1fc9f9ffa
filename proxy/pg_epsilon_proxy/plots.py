"""`pg-epsilon plot workload`: an answered workload as a picture, asked for as an analyst who was answered.

Nothing is paid: dp_shown shows the stored answer, whatever became of the policy. Each method's error of every query is
asked for only while the release is served; otherwise each method's mean error is drawn, which is stored.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from pg_epsilon_proxy.config import Config, ConfigError

SUFFIXES = (".png", ".svg")
MISSING = "a plot needs matplotlib, which is not installed: pip install 'pg-epsilon[plots]'"
MOST_METHODS = 10  # lines that can be told apart
ALONE = "each by itself"  # the engine's word for what the methods are held against


class NothingToPlot(ConfigError):
    """There is no such answer that this role may see, or nothing in it that can be drawn."""


@dataclass(frozen=True)
class Answered:
    """What is drawn.

    rows: query, low_edge, high_edge, sum, count, avg, stderr, low, high, as dp_sum_workload gives them.
    facts: theta, strategy, data and every method's expected error, as the NOTICE says; errors: per method, the
    predicted standard deviation of every query's noise; empty where it is not known.
    """

    rows: Sequence[Sequence[Any]]
    facts: Mapping[str, Any]
    errors: Mapping[str, Sequence[float]]
    value: str

    def places(self) -> tuple[list[float], str]:
        """Where each query stands, and what that is: its upper edge, its lower one, or its number where it has none.

        A query that was asked for twice stands where it stood; others do not share a place.
        """
        different = len({(row[1], row[2]) for row in self.rows})
        for column, words in ((2, "threshold"), (1, "lower edge")):
            if all(row[column] is not None for row in self.rows):
                found = [float(row[column]) for row in self.rows]
                if len(set(found)) == different:
                    return found, f"{words} of {self.value}"
        return [float(row[0]) for row in self.rows], "query"


def check(output: str) -> None:
    """ConfigError before anything is asked: for another kind of file, and without matplotlib."""
    if Path(output).suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{output}: a plot is written as {' or '.join(SUFFIXES)}")
    try:
        import matplotlib as mpl
    except ImportError:
        raise ConfigError(MISSING) from None
    mpl.use("Agg")
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its fonts


async def connect(config: Config, dsn: str | None, user: str | None) -> Any:
    """A session of the analyst's own: at the dsn, else at the settings' proxy; libpq's variables fill the rest."""
    if dsn is not None:
        return await asyncpg.connect(dsn, **({"user": user} if user else {}))
    host = "127.0.0.1" if config.listen.host in ("0.0.0.0", "::", "") else config.listen.host  # noqa: S104
    return await asyncpg.connect(host=host, port=config.listen.port, user=user, database=config.private.dbname)


async def read_shown(connection: Any, identifier: str) -> Mapping[str, Any]:
    """What dp_shown says of a release, if it was given to this role. Error: NothingToPlot; nothing is charged."""
    try:
        named = UUID(identifier)
    except ValueError:
        raise NothingToPlot(f"{identifier}: a release is named by the id of its request, a uuid") from None
    try:
        told = await connection.fetchval("SELECT dp.dp_shown($1::uuid)::text", named)
    except asyncpg.PostgresError as error:
        if error.sqlstate not in ("42501", "DP006"):
            raise
        raise NothingToPlot(str(error)) from None
    found: Mapping[str, Any] = json.loads(told)
    return found


async def fetch(connection: Any, identifier: str) -> Answered:
    """The answer of a workload that was given to this role. Error: NothingToPlot; nothing is charged in any case."""
    told = await read_shown(connection, identifier)
    if told.get("workload") is None:
        raise NothingToPlot(f"request {identifier} is no workload of sums")
    text = await connection.fetchval("SELECT dp.dp_request_of($1::uuid)::text", identifier)
    request = json.loads(text) if text is not None else {"aggregates": []}
    errors = await _errors(connection, request) if text is not None else {}
    sums = [one for one in request["aggregates"] if isinstance(one, dict) and one.get("function") == "sum"]
    value = str(sums[0]["argument"]) if sums else "the value"
    return Answered(told["workload"]["rows"], told["facts"]["workload"], errors, value)


async def _errors(connection: Any, request: Mapping[str, Any]) -> Mapping[str, Sequence[float]]:
    """Every method's errors, which come with bars; empty where asking again would cost anything, or is refused."""
    asked = json.dumps({**request, "fresh": False, "bars": True})
    try:
        plan = json.loads(await connection.fetchval("SELECT dp.dp_plan($1::jsonb)::text", asked))
        if (plan.get("charge") or {}).get("worst"):
            return {}
        answer = json.loads(await connection.fetchval("SELECT dp.dp_query($1::jsonb)::text", asked))
    except asyncpg.PostgresError:
        return {}
    found: Mapping[str, Sequence[float]] = answer["workload"].get("errors") or {}
    return found


def draw(answered: Answered, output: str) -> None:
    """Two panels: answers with their bars, and every method's predicted error, against the threshold."""
    from matplotlib.figure import Figure

    places, words = answered.places()
    order = sorted(range(len(places)), key=places.__getitem__)
    x = [places[number] for number in order]
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _answers(left, [answered.rows[number] for number in order], x)
    left.set_title(_title(answered.facts), fontsize=10)
    left.set_ylabel("private sum")
    listed = sorted(answered.errors.items(), key=lambda item: sum(one * one for one in item[1]))
    for name, errors in [one for place, one in enumerate(listed) if place < MOST_METHODS or one[0] == ALONE]:
        chosen = name == answered.facts.get("strategy")
        style: dict[str, Any] = {"linewidth": 2.4 if chosen else 1.1, "zorder": 3 if chosen else 2}
        if name == ALONE:
            style |= {"linestyle": "--", "color": "black"}
        label = f"{name} (drawn)" if chosen else name
        right.plot(x, [errors[number] for number in order], marker="o", markersize=3, label=label, **style)
    right.set_title("predicted standard deviation of the noise, by method", fontsize=10)
    right.set_xlabel(words)
    if listed:
        right.set_yscale("log")
        right.legend(fontsize=7)
    else:
        _means(right, answered.facts)
    left.set_xlabel(words)
    for axis in (left, right):
        axis.grid(alpha=0.25)
    figure.savefig(output, dpi=130)


def _means(axis: Any, facts: Mapping[str, Any]) -> None:
    """A bar for each method: its root mean squared error over all queries, as it was predicted."""
    listed = list(reversed(facts.get("candidates", [])[:MOST_METHODS]))
    names = [f"{one['strategy']}{' (drawn)' if one['strategy'] == facts.get('strategy') else ''}" for one in listed]
    axis.barh(names, [one["expected_rmse"] for one in listed])
    axis.set_xlabel("root mean square over all queries")


def _answers(axis: Any, rows: Sequence[Sequence[Any]], x: Sequence[float]) -> None:
    """Bars as wide as the engine says; an end that is not known is an arrow, one standard deviation long."""
    values = [float(row[3]) for row in rows]
    lows = [
        max(0.0, value - float(row[7])) if row[7] is not None else 0.0 for value, row in zip(values, rows, strict=True)
    ]
    known = [row[8] is not None for row in rows]
    highs = [
        max(0.0, float(row[8]) - value) if row[8] is not None else float(row[6])
        for value, row in zip(values, rows, strict=True)
    ]
    for shown, arrows in ((True, False), (False, True)):
        chosen = [number for number, one in enumerate(known) if one is shown]
        if chosen:
            axis.errorbar(
                [x[number] for number in chosen],
                [values[number] for number in chosen],
                yerr=[[lows[number] for number in chosen], [highs[number] for number in chosen]],
                fmt="o",
                markersize=4,
                capsize=3,
                lolims=arrows,
                label="what truncation cut off is not in the bars" if arrows else None,
            )
            if arrows:
                axis.legend(fontsize=7)


def _title(facts: Mapping[str, Any]) -> str:
    cut = "" if facts.get("theta_by") == "none" else f", values cut at {float(facts['theta']):g} ({facts['theta_by']})"
    return f"{facts['queries']} sums by {facts['strategy']}{cut}"
