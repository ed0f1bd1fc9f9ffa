"""A table that dp.make_synthetic made, through the proxy: its rows are there, and decisions are asked of it.

At epsilon 4 the total and each sex have noise of scale 3.3: 200 rows are 60 scales. About 185 women and men are under
40 (149 at least in 200 runs), and no bound of a decision is nearer than 200 scales: false alarm below 1e-9.
"""

from __future__ import annotations

import pytest

import fix_chance
from fix_stack import Stack

pytestmark = pytest.mark.chance(fix_chance.union(fix_chance.laplace(3.3, 30 * 3.3, 4), fix_chance.beyond(200, 10)))


def test_a_made_copy_is_there_at_once(stack: Stack) -> None:
    with stack.cluster.connect("boss") as boss:
        boss.execute("CALL dp.allot('dp_planner', 'people', epsilon => 4)")
        boss.execute("CALL dp.make_synthetic('people', epsilon => 4)")
    assert stack.cli("facade", "sync").returncode == 0
    with stack.connect() as alice:
        shown = alice.execute("SELECT count(*), min(age) >= 18, max(age) <= 80 FROM people_syn").fetchone()
        assert shown is not None
        assert 800 < shown[0] < 1200
        assert shown[1:] == (True, True)
        young = alice.execute(
            "SELECT sex, avg(income) FROM people_syn WHERE age < 40 GROUP BY sex ORDER BY 1"
        ).fetchall()
        assert {sex for sex, _ in young} >= {"f", "m"}
        question = (
            "SELECT dp_decide('SELECT count(*) FROM people WHERE age < 40', 'people_syn', tau => 900, epsilon => 1)"
        )
        assert alice.execute(question).fetchone() == (True,)
        alice.execute("SET dp.synthetic = 'people_syn'; SET dp.tau = '90%'; SET dp.epsilon = 1")
        counted = alice.execute("SELECT count(*) FROM people WHERE age < 40").fetchone()
        copied = alice.execute("SELECT count(*) FROM people_syn WHERE age < 40").fetchone()
        assert counted == copied
