"""Tree-structured PMW-Bypass (turbo.md §6.11): the vector of §13, who pays, which run is tested, streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fix_chance
from pg_epsilon.errors import DPError
from pg_epsilon.noise import Noise
from pg_epsilon.turbo import nodes, tree, window
from pg_epsilon.turbo.bins import Domain, Query, box_query
from pg_epsilon.turbo.books import MemoryBooks, Released
from pg_epsilon.turbo.calibration import Calibration
from pg_epsilon.turbo.histogram import Event, Heuristic
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.view import Answer, View

DOMAIN = Domain((4, 4))
COUNTS = [np.array([p * 16 + 600 + 5 * v for v in range(16)]) for p in range(16)]
PRICES = Calibration(Fraction(5, 100), Fraction(1, 1000))
READY = View(DOMAIN, PRICES, Heuristic(c0=0, s0=5))
UNREADY = View(DOMAIN, PRICES, Heuristic(c0=10**6))
ROW = [box_query(DOMAIN, [[i], None]) for i in range(4)]
Answering = Any


class Scripted(Noise):
    """No noise; tests pass or fail as told."""

    def __init__(self, *bits: bool) -> None:
        self.bits = list(bits)
        self.tests: list[tuple[str, int, int]] = []
        self.draws: list[tuple[str, list[int], Any]] = []

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        self.draws.append((label, list(exact), epsilon))
        return list(exact)

    def sparse_start(self, threshold: int, *, sensitivity: Any, epsilon: Any, label: str) -> int:
        return threshold

    def sparse_test(self, error: int, noisy_threshold: int, *, sensitivity: Any, epsilon: Any, label: str) -> bool:
        self.tests.append((label, error, noisy_threshold))
        return self.bits.pop(0)


def books(partitions: int = 8, scale: int = 10_000, cap: str | None = None) -> MemoryBooks:
    return MemoryBooks(COUNTS[:partitions], [scale] * partitions, None if cap is None else {None: Decimal(cap)})


def spent(shelf: MemoryBooks) -> list[float]:
    return [round(float(x) * 1e-15, 9) for x in shelf.spent[0]]


def one(query: Query, span: tuple[int, int], view: View, shelf: MemoryBooks, noise: Noise) -> Answer:
    (reply,) = tree.answer([query], *span, view, shelf, noise)
    return reply


def true(query: Query, first: int, last: int) -> int:
    return sum(query.total(counts) for counts in COUNTS[first : last + 1])


def test_nothing_is_ready() -> None:
    """§13: partitions of 10,000 rows, [1, 6]: 4 nodes at 3.950600e-3, charged to partitions 1 … 6 only."""
    shelf, noise = books(), Scripted()
    reply = one(ROW[1], (1, 6), UNREADY, shelf, noise)
    assert reply == (true(ROW[1], 1, 6), "r3", None)
    assert spent(shelf) == pytest.approx([0] + [3.950600e-3] * 6 + [0], rel=1e-6)
    assert [label for label, _, _ in noise.draws] == [f"turbo node 0:{s}" for s in ("1-1", "2-3", "4-5", "6-6")]
    assert one(ROW[1], (1, 6), UNREADY, shelf, noise).path == "exact"
    assert spent(shelf)[1] == pytest.approx(3.950600e-3, rel=1e-6)


def test_all_is_ready() -> None:
    """§13: an epoch costs 3.0403610e-2 on 1 … 6 at first use; a FAIL adds 2.7646833e-3."""
    shelf, noise = books(), Scripted(True, True, False)
    for times in (1, 2):
        assert one(ROW[1], (1, 6), READY, shelf, noise).path == "r1", times
        assert spent(shelf) == pytest.approx([0] + [3.0403610e-2] * 6 + [0], rel=1e-6)
    reply = one(ROW[2], (1, 6), READY, shelf, noise)
    assert reply == (true(ROW[2], 1, 6), "r2", None)
    assert spent(shelf)[3] == pytest.approx(3.0403610e-2 + 2.7646833e-3, rel=1e-6)
    assert not shelf.sparse_vectors["0:1-1,0:2-3,0:4-5,0:6-6"].active
    for node in (Node(0, 1, 1), Node(0, 2, 3), Node(0, 4, 5), Node(0, 6, 6)):
        assert shelf.nodes[node].thresholds.tolist()[8:12] == [5] * 4
        assert shelf.nodes[node].updates == 1


def test_every_run_has_its_own_threshold() -> None:
    """E-1: windows [1, 6] and [0, 7] have different runs, and different noisy thresholds, epochs and prices."""
    shelf, noise = books(), Scripted(True, True, True)
    one(ROW[1], (1, 6), READY, shelf, noise)
    one(ROW[1], (0, 7), READY, shelf, noise)
    one(ROW[2], (1, 6), READY, shelf, noise)
    assert {key: state.threshold for key, state in shelf.sparse_vectors.items()} == {
        "0:1-1,0:2-3,0:4-5,0:6-6": 1500,
        "0:0-7": 2000,
    }
    assert [threshold for _, _, threshold in noise.tests] == [1500, 2000, 1500]


def trained(shelf: MemoryBooks, view: View, ready: Sequence[Node]) -> None:
    for node in ready:
        nodes.histogram_of(node, view, shelf).counts[:] = 10**6


def test_the_longest_run_by_rows_is_tested_the_rest_drawn() -> None:
    """E-8: ready are 1-1 (10,000 rows) and 4-5, 6-6 (30,000): J = 4-5, 6-6, though 1-1 is ready too."""
    shelf, noise = books(), Scripted(True)
    trained(shelf, UNREADY, [Node(0, 1, 1), Node(0, 4, 5), Node(0, 6, 6)])
    reply = one(ROW[1], (1, 6), UNREADY, shelf, noise)
    assert reply.path == "mixed"
    assert list(shelf.sparse_vectors) == ["0:4-5,0:6-6"]
    assert [label for label, _, _ in noise.draws] == ["turbo node 0:1-1", "turbo node 0:2-3"]
    node_price = float(PRICES.node(2, 30_000).amount)
    assert spent(shelf)[1:4] == pytest.approx([node_price] * 3, rel=1e-6)
    assert spent(shelf)[4:7] == pytest.approx([3 * float(PRICES.run_epoch(30_000))] * 3, rel=1e-6)


def test_equal_runs_are_broken_to_the_left() -> None:
    shelf = books()
    trained(shelf, UNREADY, [Node(0, 1, 1), Node(0, 6, 6)])
    one(ROW[1], (1, 6), UNREADY, shelf, Scripted(True))
    assert list(shelf.sparse_vectors) == ["0:1-1"]


def test_a_stored_answer_is_preferred_to_the_histogram() -> None:
    """Note 1: it is free and accurate already; its node is not in the run."""
    shelf, noise = books(), Scripted(True)
    dear = Released(7, "laplace", Decimal(1))
    shelf.keep_exact(ROW[1], Node(0, 4, 5), dear)
    reply = one(ROW[1], (1, 6), READY, shelf, noise)
    assert list(shelf.sparse_vectors) == ["0:1-1,0:2-3"]
    assert [label for label, _, _ in noise.draws] == ["turbo node 0:6-6"]
    assert reply.path == "mixed"
    assert spent(shelf)[4] == 0


def test_a_stored_answer_too_coarse_for_the_rest_goes_back_to_the_run() -> None:
    """Note 1: stored for four nodes of 60,000 rows, too noisy alone for 10,000: tested with the others instead."""
    shelf, noise = books(), Scripted(True)
    shelf.keep_exact(ROW[1], Node(0, 6, 6), Released(7, "laplace", PRICES.node(4, 60_000).amount))
    assert one(ROW[1], (1, 6), READY, shelf, noise).path == "r1"
    assert noise.draws == []


def test_a_leaf_that_cannot_pay_refuses_the_whole_request() -> None:
    shelf, noise = books(cap="0.01"), Scripted()
    one(ROW[1], (6, 6), replace(UNREADY, prices=Calibration(Fraction(49, 100), Fraction(1, 10))), shelf, noise)
    before, drawn = spent(shelf), len(noise.draws)
    with pytest.raises(DPError) as refused:
        one(ROW[1], (4, 6), replace(UNREADY, prices=Calibration(Fraction(1, 100), PRICES.beta)), shelf, noise)
    assert refused.value.sqlstate == "DP001"
    assert (spent(shelf), len(noise.draws)) == (before, drawn)


def test_partitions_without_rows_are_left_out() -> None:
    shelf = MemoryBooks(COUNTS[:4], [10_000, 0, 10_000, 10_000])
    flat = replace(READY, planner="flat")
    noise = Scripted()
    reply = one(ROW[0], (1, 2), UNREADY, shelf, noise)
    assert [label for label, _, _ in noise.draws] == ["turbo node 0:2-2"]
    assert reply.value == true(ROW[0], 2, 2)
    one(ROW[1], (0, 2), flat, shelf, Scripted(True))
    assert shelf.spent[0, 1] == 0, "a run around it does not pay for it"
    empty = MemoryBooks(COUNTS[:1], [0])
    assert one(ROW[0], (0, 0), UNREADY, empty, Scripted()) == (0, "trivial", None)


@pytest.mark.parametrize("answer", [tree.answer, window.answer])
def test_the_number_of_rows_is_a_question_like_any_other(answer: Answering) -> None:
    """20,000 rows were declared where 10,000 are: no histogram tells, and none learns from it."""
    shelf, everything = books(scale=20_000), box_query(DOMAIN, [None, None])
    (reply,) = answer([everything], 1, 6, READY, shelf, Scripted())
    assert reply == (true(everything, 1, 6), "r3", None)
    assert [node.updates for node in shelf.nodes.values()] == [0] * len(shelf.nodes)


def test_the_keys_of_a_batch_share_what_their_nodes_cost() -> None:
    shelf, noise = books(), Scripted()
    replies = tree.answer(ROW, 1, 6, UNREADY, shelf, noise)
    assert [reply.value for reply in replies] == [true(query, 1, 6) for query in ROW]
    assert spent(shelf) == pytest.approx([0] + [3.950600e-3] * 6 + [0], rel=1e-6)


def test_one_epoch_serves_the_keys_of_a_batch_until_its_first_fail() -> None:
    shelf, noise = books(), Scripted(True, False)
    replies = tree.answer(ROW, 1, 6, READY, shelf, noise)
    assert [reply.path for reply in replies] == ["r1", "r2", "r2", "r2"]
    assert spent(shelf)[2] == pytest.approx(3.0403610e-2 + 2.7646833e-3, rel=1e-6)
    assert len(noise.draws) == 1


class Broken(MemoryBooks):
    """Its log fails once a test has failed."""

    def log(self, node: Node, event: Event, query: Query) -> None:
        raise RuntimeError("log")


@pytest.mark.parametrize("answer", [tree.answer, window.answer])
def test_an_error_after_a_fail_keeps_the_epoch_closed(answer: Answering) -> None:
    """E-22, with both scopes."""
    shelf = Broken(COUNTS[:8], [10_000] * 8)
    (reply,) = answer([ROW[0]], 1, 6, READY, shelf, Scripted(False))
    assert (reply.value, reply.path) == (None, "failed")
    assert not any(state.active for state in shelf.sparse_vectors.values())


def test_a_later_key_that_cannot_pay_does_not_undo_an_earlier_fail() -> None:
    """Scope window answers key by key: what follows a FAIL is an error as a value."""
    shelf = books(cap="0.05")
    replies = window.answer(ROW[:2], 1, 6, READY, shelf, Scripted(False, True))
    assert replies[0].path == "r2"
    assert (replies[1].value, replies[1].path) == (None, "failed")


def test_the_flat_planner_uses_leaves_only() -> None:
    shelf, noise = books(), Scripted()
    one(ROW[0], (1, 3), replace(UNREADY, planner="flat"), shelf, noise)
    assert [label for label, _, _ in noise.draws] == [f"turbo node 0:{p}-{p}" for p in (1, 2, 3)]


def test_a_forest_takes_windows_up_to_its_longest() -> None:
    shelf, noise, view = books(16), Scripted(), replace(UNREADY, longest=4)
    one(ROW[0], (5, 8), view, shelf, noise)
    assert [label for label, _, _ in noise.draws] == [f"turbo node 1:{s}" for s in ("5-5", "6-7", "8-8")]
    with pytest.raises(DPError) as refused:
        one(ROW[0], (4, 8), view, shelf, noise)
    assert refused.value.sqlstate == "DP005"


def test_a_stream_starts_its_nodes_warm() -> None:
    """§6.13: a leaf copies the one before it; an inner node is the mean of its children, when it is complete."""
    view = replace(READY, warm=True, heuristic=Heuristic(c0=1, s0=5))
    shelf = books(4)
    nodes.sealed(0, view, shelf)
    shelf.nodes[Node(0, 0, 0)].update(ROW[0], 1.0)
    nodes.sealed(1, view, shelf)
    assert shelf.nodes[Node(0, 1, 1)].counts.tolist() == shelf.nodes[Node(0, 0, 0)].counts.tolist()
    assert shelf.nodes[Node(0, 0, 1)].ready(ROW[0], view.heuristic)
    nodes.sealed(2, view, shelf)
    nodes.sealed(3, view, shelf)
    assert set(shelf.nodes) == {Node(0, *s) for s in ((0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (2, 3), (0, 3))}
    cold = books(2)
    nodes.sealed(0, READY, cold)
    assert not cold.nodes


def test_a_forest_seals_in_both_of_its_trees() -> None:
    view, shelf = replace(READY, warm=True, longest=2), books(6)
    for p in range(6):
        nodes.sealed(p, view, shelf)
    assert {node for node in shelf.nodes if node.last == 3} == {
        Node(0, 3, 3), Node(0, 2, 3), Node(0, 0, 3), Node(1, 3, 3), Node(1, 2, 3)
    }  # fmt: skip
    assert Node(1, 2, 5) in shelf.nodes


def test_scope_window_tests_the_whole_answer_and_charges_the_whole_window() -> None:
    shelf, noise = books(), Scripted(True, False)
    trained(shelf, UNREADY, [Node(0, 1, 1), Node(0, 4, 5)])
    (reply,) = window.answer([ROW[1]], 1, 6, UNREADY, shelf, noise)
    assert reply.path == "mixed"
    epoch = 3 * float(PRICES.epoch(60_000))
    draw = float(PRICES.window_node(2, 30_000).amount)
    expected = [0, epoch, epoch + draw, epoch + draw, epoch, epoch, epoch + draw, 0]
    assert spent(shelf) == pytest.approx(expected, rel=1e-6)
    assert noise.tests[0][0].startswith("sparse vector window 0:1-6")
    (failed,) = window.answer([ROW[2]], 1, 6, UNREADY, shelf, noise)
    assert failed == (true(ROW[2], 1, 6), "r2", None)
    assert [state.active for state in shelf.sparse_vectors.values()] == [False]


@pytest.mark.chance(fix_chance.binomial(400, 2e-3, 0, 10))
@pytest.mark.parametrize("answer", [tree.answer, window.answer])
def test_answers_are_accurate(answer: Answering) -> None:
    """400 windows with real noise: at most 10 questions are ever off by more than alpha n~.

    A node's answer is kept, and is part of several windows of the same question: a question counts once. A window is
    off with probability 2e-3 at most.
    """
    from pg_epsilon.noise import current

    rng, shelf = np.random.default_rng(5), books(16)
    wrong: set[bytes] = set()
    view = View(DOMAIN, PRICES, Heuristic(c0=3, s0=2))
    for _ in range(400):
        first, last = sorted(rng.integers(0, 16, 2).tolist())
        query = box_query(DOMAIN, [rng.permutation(4)[: rng.integers(1, 4)], rng.permutation(4)[: rng.integers(1, 5)]])
        (reply,) = answer([query], first, last, view, shelf, current())
        assert reply.value is not None
        if abs(reply.value - true(query, first, last)) > 500 * (last - first + 1):
            wrong.add(query.id)
    assert len(wrong) <= 10
