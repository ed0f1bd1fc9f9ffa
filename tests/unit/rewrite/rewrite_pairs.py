"""Rewrite pairs: statement, its blocks, the statement that the facade runs. Adding one is adding lines to a .sql file.

A section, separated by empty lines, is: comment lines `-- why`; the statement, ended by `;`; then either
`-- refused SQLSTATE at offset word: message`, or `-- passes` (none of ours), or one `-- block {request}` or
`-- call text`, `-- view text` or `-- empty text` per block, `-- together {request}` per group of blocks that one call
may answer, and the rewritten statement. Members of a request at their default are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pg_epsilon.query.parse import ast, parse_statements
from pg_epsilon_proxy.rewrite.bars import bar_types
from pg_epsilon_proxy.rewrite.blocks import Block, CallBlock, EmptyBlock, QueryBlock, ViewBlock
from pg_epsilon_proxy.rewrite.compile import compile_statement
from pg_epsilon_proxy.rewrite.frames import bare_columns
from pg_epsilon_proxy.rewrite.names import Facts, Names, Relation
from pg_epsilon_proxy.rewrite.probes import constant
from pg_epsilon_proxy.rewrite.scope import candidates
from pg_epsilon_proxy.rewrite.splice import fill, with_parameters
from pg_epsilon_proxy.rewrite.tree import sql_text, statement_text, walk
from pg_epsilon_proxy.rewrite.workloads import WorkloadBlock
from pg_epsilon_proxy.session.rewriting import Refusal

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rewrite"

TYPES = {
    "age": "integer",
    "education": "text",
    "sex": "character varying(10) COLLATE public.ci",
    "income": "numeric(10,2)",
    "info": "jsonb",
    "Mixed Case": "text",
    "dataset": "text",
    "left": "numeric",
    "region": "text",
    "level": "text",
    "n": "bigint",
}
ADULT = Relation("public", "adult", "protected", ("age", "education", "sex", "income", "info", "Mixed Case"))
VISITS = Relation("clinic", "visits", "protected", ("age", "region"))
ODD = Relation("public", 'Odd "Name"', "protected", ("age",))
BUDGET = Relation("dp", "budget", "view", ("dataset", "left"))
NAMES = Names(
    frozenset({("public", "adult"), ("clinic", "visits"), ("public", 'Odd "Name"')}),
    frozenset({("dp", "budget")}),
    frozenset(
        {
            *("dp_budget_left", "dp_count", "dp_group_by", "dp_high", "dp_low", "dp_plan", "dp_query", "dp_stderr"),
            *("dp_sum", "dp_bound", "dp_decision", "dp_decide", "dp_decide_detail", "dp_decide_plan"),
            *("dp_sum_workload", "dp_request_of", "dp_shown"),
        }
    ),
    public=frozenset({("ref", "levels"), ("ref", "regions")}),
    expansions={
        ("public", "grown_ups"): " SELECT adult.age,\n    adult.education AS level\n   FROM public.adult\n"
        "  WHERE (adult.age >= 18);",
        ("public", "by_level"): " SELECT grown_ups.level,\n    count(*) AS n\n   FROM public.grown_ups\n"
        "  GROUP BY grown_ups.level;",
    },
    columns={
        ("public", "adult"): ("age", "education", "sex", "income", "info", "Mixed Case"),
        ("public", "grown_ups"): ("age", "level"),
        ("public", "by_level"): ("level", "n"),
    },
)
GROWN = Relation("public", "grown_ups", "expanded", ("age", "level"))
BY_LEVEL = Relation("public", "by_level", "expanded", ("level", "n"))
LEVELS = Relation("ref", "levels", "public", ("education", "rank"))
REGIONS = Relation("ref", "regions", "public", ("region", "country"))
# search_path "$user", public, dp; no temporary tables.
RESOLVED = {
    (None, None, "adult"): ADULT,
    (None, "public", "adult"): ADULT,
    ("facade", "public", "adult"): ADULT,
    (None, "clinic", "visits"): VISITS,
    (None, None, 'Odd "Name"'): ODD,
    (None, None, "budget"): BUDGET,
    (None, "dp", "budget"): BUDGET,
    (None, "ref", "levels"): LEVELS,
    (None, None, "regions"): REGIONS,
    (None, None, "grown_ups"): GROWN,
    (None, "public", "grown_ups"): GROWN,
    (None, None, "by_level"): BY_LEVEL,
    (None, "public", "by_level"): BY_LEVEL,
}


@dataclass
class Pair:
    """One section of a fixture."""

    source: str
    sql: str
    expected: list[str] = field(default_factory=list)


def load() -> list[Pair]:
    """All pairs of all fixture files, in order."""
    return [pair for path in sorted(FIXTURES.glob("*.sql")) for pair in _sections(path)]


def _sections(path: Path) -> Iterator[Pair]:
    line_number = 1
    for section in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in section.strip("\n").splitlines() if line]
        start = next((i for i, line in enumerate(lines) if not line.startswith("--")), None)
        if start is not None:
            end = next(i for i, line in enumerate(lines) if i >= start and line.endswith(";"))
            sql = "\n".join(lines[start : end + 1]).removesuffix(";")
            yield Pair(f"{path.name}:{line_number}", sql, lines[end + 1 :])
        line_number += section.count("\n") + 2


def rewrite(sql: str, parameters: int = 0) -> list[str]:
    """What a section's expected lines say of `sql`; parameters: how many $n the client uses, all int4."""
    node = parse_statements(sql)[0].stmt
    found = candidates(node, NAMES)
    relations = {name: RESOLVED[name] for name in found.relations | found.publics if name in RESOLVED}
    try:
        compiled = compile_statement(node, Facts(relations, found.calls, names=NAMES), sql)
    except Refusal as refusal:
        return [f"-- refused {refusal.sqlstate} at {_near(sql, refusal.position)}: {refusal.message}"]
    if not compiled.blocks:
        return ["-- passes"]
    shown = [_shown(block) for block in compiled.blocks]
    groups = dict.fromkeys(block.workload for block in compiled.blocks if isinstance(block, QueryBlock))
    shown += [_together(group) for group in groups if group is not None]
    queries = [block for block in compiled.blocks if not isinstance(block, CallBlock)]
    fill(
        compiled,
        {block.number: _types(block) for block in queries},
        {block.number: block.relation.columns for block in queries if isinstance(block, ViewBlock)},
        {block.number: f"mark {block.number}" for block in compiled.blocks},
    )
    numbers = {f"mark {block.number}": parameters + block.number for block in compiled.blocks}
    return [*shown, with_parameters(statement_text(compiled.node), numbers) + ";"]


def _near(sql: str, position: int | None) -> str:
    """The offset, and the word that stands there."""
    return "no place" if position is None else f"{position} {re.split(r'[ ,(]', sql[position:])[0]}"


def _types(block: Block) -> list[str]:
    if isinstance(block, QueryBlock):
        keys = [TYPES.get(sql_text(bare_columns(key)).strip('"'), "text") for key in block.keys]
        kinds = [aggregate.type or "numeric" for aggregate in block.aggregates]
        return [*keys, *kinds, *bar_types(block.bars, kinds)]
    assert isinstance(block, ViewBlock)
    return [TYPES[name] for name in block.relation.columns]


def _shown(block: Block) -> str:
    if isinstance(block, CallBlock):
        return f"-- call {block.sql}"
    if isinstance(block, EmptyBlock):
        return f"-- empty {block.shape}"
    if isinstance(block, ViewBlock):
        return f"-- view {block.sql}"
    fractions = {p.number for a in block.aggregates for p in walk(a.fraction) if isinstance(p, ast.ParamRef)}
    integer = {
        number: constant("0.25", "double precision") if number in fractions else constant(str(40 + number), "integer")
        for number in block.parameters()
    }
    return f"-- block {json.dumps(_brief(block.request(integer, {})), ensure_ascii=False)}"


def _together(group: WorkloadBlock) -> str:
    numbers = {number for arm in group.arms for number in arm.parameters()}
    constants = {number: constant(str(40 + number), "integer") for number in numbers}
    return f"-- together {json.dumps(_brief(group.request(constants, {}, {'epsilon': '1'})), ensure_ascii=False)}"


def _brief(value: Any) -> Any:
    defaults = (None, [], {}, False, "auto")
    if isinstance(value, dict):
        return {k: _brief(v) for k, v in value.items() if v not in defaults and k != "version"}
    return [_brief(item) for item in value] if isinstance(value, list) else value
