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
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms.additive import Additive, core
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release.ends import Ends
from pg_epsilon.release.kronecker import Kronecker
from pg_epsilon.release.masses import Values
from pg_epsilon.release.statement import parse
from pg_epsilon.release.trees import Tree, nodes_of


@dataclass(frozen=True)
class Cells:
    """The measure of a release by split cells.

    classes: how many there are; values: how a row's mass is split; None: rows are counted, one cell a class. noise: for
    the vector of all cells, its sensitivity in units of 2^-bits rows. trees: the nodes over each column's classes that
    have cells; none: the classes themselves. ends: which of a class's cells exist; None: all of them. strategy: what
    has cells instead of the classes, sums of them by a matrix; without trees and ends.
    """

    classes: int
    values: Values | None
    noise: Additive
    trees: tuple[Tree, ...] = ()
    ends: Ends | None = None
    strategy: Kronecker | None = None

    @property
    def mechanism(self) -> str:
        cells = "ranges of split cells" if self.trees else "matrix of split cells" if self.strategy else "split cells"
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
        """Cells of all classes, or of all nodes, or of all sums of a strategy."""
        if self.strategy is not None:
            return self.strategy.rows * self.of_class
        return (nodes_of(self.trees) if self.trees else self.classes) * self.of_class

    @cached_property
    def there(self) -> npt.NDArray[np.bool_] | None:
        """[class, cell]: which cells exist; None: all."""
        if self.ends is None or self.values is None:
            return None
        return self.ends.there(self.values.zero, len(self.values.steps), self.values.cells)

    @property
    def drawn(self) -> int:
        """Cells that have noise; the others of `released` are 0."""
        return self.released if self.there is None else int(self.there.sum())

    def squares(self) -> npt.NDArray[np.float64]:
        """Of each class, or node, the squares of its cells' values; of counts 1: the noise of its unbiased sum."""
        if self.values is None:
            return np.ones(self.released)
        own = np.array([float(one) ** 2 for one in self.values.steps])
        if self.there is None:
            return np.full(self.released // self.of_class, own.sum())
        return np.asarray(self.there[:, : len(own)] @ own)

    def charges(self) -> tuple[Charge, ...]:
        return self.noise.charges()

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """The noisy cells, class by class; exact: the statement's text."""
        ((text,),) = exact
        found = histogram(parse(text or None), self)
        if self.there is None:
            return [core(found, self.noise, noise, label)]
        places = self.there.ravel().nonzero()[0].tolist()
        drawn, noisy = [0] * len(found), core([found[place] for place in places], self.noise, noise, label)
        for place, one in zip(places, noisy, strict=True):
            drawn[place] = one
        return [drawn]


def histogram(cube: Iterable[tuple[int, int, int, int]], how: Cells) -> list[int]:
    """The exact cells, class by class, node by node or sum by sum, in units of 2^-bits rows.

    cube: see statement.parse. Private.
    """
    found = [0] * (how.classes * how.of_class)
    ends = how.ends.by_class.tolist() if how.ends is not None else None
    for place, part, rows, upper in cube:
        if how.values is None:
            found[place] += rows
            continue
        own = (
            how.values.masses(part, rows, upper) if ends is None else how.values.within(part, rows, upper, *ends[place])
        )
        for cell, mass in own:
            found[place * how.of_class + cell] += mass
    if how.strategy is not None:
        return how.strategy.of(found)
    if not how.trees:
        return found
    from pg_epsilon.release.ranges import of_nodes

    return of_nodes(found, how.trees)
