"""Every pair of tests/fixtures/rewrite: blocks, rewritten statement or refusal, and that printing is faithful."""

from __future__ import annotations

import re

import pytest
from rewrite_pairs import NAMES, RESOLVED, Pair, load, rewrite

from pg_epsilon.query.parse import deparse, parse_statements
from pg_epsilon_proxy.rewrite.scope import candidates

PAIRS = load()


def _parameters(sql: str) -> int:
    """How many $n the client's statement uses; text constants do not count."""
    bare = re.sub(r"'[^']*'", "''", sql)
    return max((int(number) for number in re.findall(r"\$(\d+)", bare)), default=0)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.source)
def test_pair(pair: Pair) -> None:
    assert rewrite(pair.sql, _parameters(pair.sql)) == pair.expected


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.source)
def test_printer_keeps_the_tree(pair: Pair) -> None:
    """The rewritten text comes from pglast's printer: it must not change what it prints."""
    for sql in (pair.sql, *(line for line in pair.expected if not line.startswith("--"))):
        tree = parse_statements(sql)[0].stmt
        assert parse_statements(deparse(tree))[0].stmt == tree


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.source)
def test_nothing_of_ours_is_left(pair: Pair) -> None:
    """What the facade runs names no protected relation, no view of schema dp and no dp_* function (rule R1)."""
    if pair.expected[0].startswith(("-- refused", "-- passes")):
        return
    found = candidates(parse_statements(pair.expected[-1])[0].stmt, NAMES)
    assert not found.calls
    assert not found.relations & set(RESOLVED), "nothing protected, no view of ours"


def test_every_refusal_shows_where() -> None:
    """design.md §5: DP003 comes "with a position"."""
    refused = [line for pair in PAIRS for line in pair.expected if line.startswith("-- refused")]
    assert refused and not [line for line in refused if " at no place: " in line]


def test_there_are_enough_pairs() -> None:
    refused = {line.split()[2] for pair in PAIRS for line in pair.expected if line.startswith("-- refused")}
    assert len(PAIRS) >= 150
    assert refused == {"DP002", "DP003", "42501"}
