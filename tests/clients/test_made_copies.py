"""A table that dp.make_synthetic made, through the proxy: its rows are there, and decisions are asked of it.

At these budgets noise would have to be more than a hundred times its scale to change an outcome: below 1e-30.
"""

from __future__ import annotations

from fix_stack import Stack


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
