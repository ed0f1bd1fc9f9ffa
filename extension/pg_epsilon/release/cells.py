"""Split cells: noise on every cell of the split histogram, in one draw (numeric-release.md §0.0, "Split cells"), of
its classes or of nodes over them (§8.1).

Guarantee: epsilon-DP (discrete Laplace), resp. rho-zCDP (discrete Gaussian), for adding or removing one unit with all
it owns: a row moves the vector of all cells by 2^bits in L1 and at most that in L2 (masses.py), a user's rows by that
times kappa. In nodes a row is once in each level. All queries of the family, and others, are answered from what is
released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms.additive import Additive, core
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release.masses import Values
from pg_epsilon.release.statement import parse
from pg_epsilon.release.trees import Tree, nodes_of


@dataclass(frozen=True)
class Cells:
    """The measure of a release by split cells.

    classes: how many there are; values: how a row's mass is split; None: rows are counted, one cell a class. noise: for
    the vector of all cells, its sensitivity in units of 2^-bits rows. trees: the nodes over each column's classes that
    have cells; none: the classes themselves.
    """

    classes: int
    values: Values | None
    noise: Additive
    trees: tuple[Tree, ...] = ()

    @property
    def mechanism(self) -> str:
        cells = "ranges of split cells" if self.trees else "split cells"
        return f"{cells} ({'discrete Gaussian' if self.noise.rho else 'discrete Laplace'})"

    @property
    def width(self) -> int:
        """How many integers are read: one, which is the statement's text."""
        return 1

    @property
    def of_class(self) -> int:
        """Cells of one class."""
        return self.values.cells if self.values is not None else 1

    @property
    def released(self) -> int:
        """Cells of all classes, or of all nodes."""
        return (nodes_of(self.trees) if self.trees else self.classes) * self.of_class

    def charges(self) -> tuple[Charge, ...]:
        return self.noise.charges()

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """The noisy cells, class by class; exact: the statement's text."""
        ((text,),) = exact
        return [core(histogram(parse(text or None), self), self.noise, noise, label)]


def histogram(cube: Iterable[tuple[int, int, int, int]], how: Cells) -> list[int]:
    """The exact cells, class by class or node by node, in units of 2^-bits rows; cube: see statement.parse. Private."""
    found = [0] * (how.classes * how.of_class)
    for place, part, rows, upper in cube:
        if how.values is None:
            found[place] += rows
            continue
        for cell, mass in how.values.masses(part, rows, upper):
            found[place * how.of_class + cell] += mass
    if not how.trees:
        return found
    from pg_epsilon.release.ranges import of_nodes

    return of_nodes(found, how.trees)
