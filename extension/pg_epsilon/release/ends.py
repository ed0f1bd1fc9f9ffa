"""Where the values of each class end, by public facts: cells beyond do not exist (numeric-release.md §0.0).

Of sum(price * pieces) by pieces, what a row of the class of two pieces may have is known from the
bounds of the price. Cells above that would hold noise alone; they are neither drawn nor added up. A
row beyond counts at its class's last step, as one beyond the declared bounds does at the last of
all: it is one unit of mass all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from pg_epsilon.query import members
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.names import named
from pg_epsilon.query.parse import ast, children, parse_expression
from pg_epsilon.query.ranges import number, range_of
from pg_epsilon.query.schema import BOUNDS, Column
from pg_epsilon.query.types import Kind
from pg_epsilon.release.classes import Axis
from pg_epsilon.release.ladder import Ladder, base_of, ladder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST = 4096  # classes whose ends are computed: each takes some hundred microseconds
_NUMBERS = (Kind.INT, Kind.NUMERIC, Kind.FLOAT)


@dataclass(frozen=True)
class Ends:
    """Of each class, how many steps of its ladders have a cell.

    sizes: classes of each axis. axes: those that tell, by their numbers. each: of their classes, the
    last one's fastest, how many steps below 0 and above.
    """

    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    each: tuple[tuple[int, int], ...]

    @cached_property
    def by_class(self) -> npt.NDArray[np.int64]:
        """[class, 2]."""
        import numpy as np

        own = [size if place in self.axes else 1 for place, size in enumerate(self.sizes)]
        found = np.array(self.each, np.int64).reshape(*own, 2)
        return np.broadcast_to(found, (*self.sizes, 2)).reshape(-1, 2)

    def there(self, zero: int, steps: int, cells: int) -> npt.NDArray[np.bool_]:
        """[class, cell]: which exist; zero: the place of the cell of value 0, steps: cells with a value."""
        import numpy as np

        place, (below, above) = np.arange(cells), self.by_class.T[:, :, None]
        return np.asarray(((place >= zero - below) & (place <= zero + above)) | (place >= steps))

    def canonical(self) -> list[Any]:
        return [list(self.axes), [list(one) for one in self.each]]

    @classmethod
    def read(cls, sizes: Sequence[int], found: Any) -> Ends | None:
        """From `canonical`; None of a release that has all cells."""
        if found is None:
            return None
        axes, each = found
        return cls(tuple(sizes), tuple(axes), tuple((below, above) for below, above in each))


def ends_of(head: Head, axes: Sequence[Axis]) -> Ends | None:
    """The ends of a sum's classes; None where all classes have all steps, or more than MOST classes tell."""
    lattice = head.aggregates[0].lattice
    text = members.mapping(members.items(head.document.get("aggregates"), "aggregates")[0], "aggregate").get("argument")
    if lattice is None or not isinstance(text, str):
        return None
    node = parse_expression(text)
    columns = {named(one, head.scope)[1].name for one in _references(node)}
    telling = [place for place, axis in enumerate(axes) if axis.name in columns and axis.type.kind in _NUMBERS]
    if not telling or prod(axes[place].size for place in telling) > MOST:
        return None
    base = base_of(lattice.step)
    both = [ladder(end * lattice.step, base) if end > 0 else None for end in (-lattice.low, lattice.high)]
    each = tuple(
        _of_class(node, head, dict(zip(telling, one, strict=True)), axes, lattice, both)
        for one in product(*(range(axes[place].size) for place in telling))
    )
    if set(each) == {_lengths(both)}:
        return None
    return Ends(tuple(axis.size for axis in axes), tuple(telling), each)


def _of_class(
    node: Any,
    head: Head,
    classes: dict[int, int],
    axes: Sequence[Axis],
    lattice: Lattice,
    both: Sequence[Ladder | None],
) -> tuple[int, int]:
    """How many steps below 0 and above the rows of some axes' classes may have."""
    whole = _lengths(both)
    within = {axes[place].name: (axes[place].starts[own], axes[place].ends[own]) for place, own in classes.items()}

    def column_of(reference: Any) -> Column:
        column = named(reference, head.scope)[1]
        start, end = within.get(column.name, (None, None))
        if column.policy is None or start is None or end is None or number(start) is None or number(end) is None:
            return column
        return replace(column, policy=replace(column.policy, kind=BOUNDS, lower=start, upper=end))

    found = range_of(node, column_of)
    if found.low is None or found.high is None:
        return whole
    below, above = (
        _steps(ceil(end / lattice.step) * lattice.step, own)
        for end, own in zip((-found.low, found.high), both, strict=True)
    )
    return below, above


def _lengths(both: Sequence[Ladder | None]) -> tuple[int, int]:
    below, above = (one.length if one is not None else 0 for one in both)
    return below, above


def _steps(end: Fraction, own: Ladder | None) -> int:
    place = own.place(end) if own is not None else None
    return 0 if place is None else place + 1


def _references(node: Any) -> list[Any]:
    found, stack = [], [node]
    while stack:
        one = stack.pop()
        if isinstance(one, ast.ColumnRef):
            found.append(one)
        else:
            stack.extend(children(one))
    return found
