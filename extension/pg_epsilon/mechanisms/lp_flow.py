"""Maximum flow in integers (Dinic 1970): the exact optimum where a result row has at most two owners."""

from __future__ import annotations

from collections.abc import Iterable

from pg_epsilon.mechanisms.waiting import check_for_cancel

_OFTEN = 1 << 14


class Network:
    """Arcs with integer capacities between numbered nodes; 0 is the source, 1 the sink."""

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[], []]
        self._head: list[int] = []
        self._free: list[int] = []

    def node(self) -> int:
        """A new node's number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def arc(self, tail: int, head: int, capacity: int) -> None:
        """An arc and, as the next number, its reverse of capacity 0."""
        self._arcs[tail].append(len(self._head))
        self._arcs[head].append(len(self._head) + 1)
        self._head += (head, tail)
        self._free += (capacity, 0)

    def maximum(self) -> int:
        """The value of a maximum flow from 0 to 1. Ends: each phase makes the shortest way longer."""
        found = 0
        while (depth := self._depths())[1] >= 0:
            found += self._phase(depth)
        return found

    def _depths(self) -> list[int]:
        check_for_cancel()
        depth = [-1] * len(self._arcs)
        depth[0], layer = 0, [0]
        while layer and depth[1] < 0:
            below = []
            for node in layer:
                for arc in self._arcs[node]:
                    head = self._head[arc]
                    if self._free[arc] and depth[head] < 0:
                        depth[head] = depth[node] + 1
                        below.append(head)
            layer = below
        return depth

    def _phase(self, depth: list[int]) -> int:
        """A blocking flow: ways of growing depth, depth first, without recursion."""
        following = [0] * len(self._arcs)
        way: list[int] = []
        node = found = steps = 0
        while True:
            steps += 1
            if not steps % _OFTEN:
                check_for_cancel()
            if node == 1:
                amount = min(self._free[arc] for arc in way)
                found += amount
                for arc in way:
                    self._free[arc] -= amount
                    self._free[arc ^ 1] += amount
                cut = next(i for i, arc in enumerate(way) if not self._free[arc])
                node = self._head[way[cut] ^ 1]
                del way[cut:]
                continue
            arcs = self._arcs[node]
            while following[node] < len(arcs):
                arc = arcs[following[node]]
                if self._free[arc] and depth[self._head[arc]] == depth[node] + 1:
                    break
                following[node] += 1
            else:
                if not way:
                    return found
                node = self._head[way.pop() ^ 1]
                following[node] += 1
                continue
            way.append(arc)
            node = self._head[arc]


def twice_pairs(rows: Iterable[tuple[tuple[int, ...], int]], t: int) -> int:
    """2 Q for rows of one or two owners, (owners, value).

    Every unit has a left and a right copy, both with limit t; a row is an arc of its value from left to right in both
    directions, and a row's missing owner is a unit without limit. A solution u is a flow of u on both arcs; the mean
    of a flow's two arcs is a solution, since a unit's load is the mean of its copies' loads.
    """
    network, left, right = Network(), {-1: 0}, {-1: 1}
    for owners, value in rows:
        first, second = (*owners, -1)[:2]
        for unit in owners:
            if unit not in left:
                left[unit], right[unit] = network.node(), network.node()
                network.arc(0, left[unit], t)
                network.arc(right[unit], 1, t)
        network.arc(left[first], right[second], value)
        network.arc(left[second], right[first], value)
    return network.maximum()


def labels_of_units(rows: Iterable[tuple[int, int]], t: int) -> int:
    """Q for a distinct count whose rows, (unit, label), have one owner each: a unit gives up to t labels 1 each."""
    network = Network()
    units: dict[int, int] = {}
    labels: dict[int, int] = {}
    for unit, label in rows:
        if unit not in units:
            units[unit] = network.node()
            network.arc(0, units[unit], t)
        if label not in labels:
            labels[label] = network.node()
            network.arc(labels[label], 1, 1)
        network.arc(units[unit], labels[label], 1)
    return network.maximum()
