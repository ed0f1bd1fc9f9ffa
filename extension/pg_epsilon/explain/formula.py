"""An expression of groups that is to be explained, validated by public facts alone (dpxplain.md §7.2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.arithmetic import Node, Operation, parse, renumbered, used, walk
from pg_epsilon.explain.images import SYMBOLS, Image, image_of
from pg_epsilon.explain.influence import Kind
from pg_epsilon.explain.question import Question
from pg_epsilon.query.bounds import Lattice

MOST_PREDICATES = 2_000
"""Whose distances are computed: each rank that is tried looks at all of them."""


@dataclass(frozen=True)
class Formula:
    """An expression of so many groups' counts, sums or averages; public.

    tree: of + - * /, in units of the value. low, high: bounds of a row's value, step: of the lattice that they are
    integers of; not read for counts.
    """

    kind: Kind
    tree: Node
    groups: int
    low: int = 0
    high: int = 0
    step: Fraction = Fraction(1)

    @property
    def operations(self) -> int:
        """How many intervals are computed of a predicate, in all."""
        return 2 * (sum(1 for _ in walk(self.tree)) + 4 * self.groups)

    @property
    def change(self) -> int:
        """The most by which one row moves a count or a sum that is looked at."""
        if self.kind == "count":
            return 1
        return max(self.high - self.centre, self.centre - self.low, 1)

    @property
    def centre(self) -> int:
        """What every value is lessened by: averages are nearer to it than to 0."""
        return (self.low + self.high) // 2 if self.kind == "avg" else 0

    @property
    def is_positive(self) -> bool:
        """Whether no answer is ever negative."""
        return self.kind == "count" or self.low >= 0

    @cached_property
    def image(self) -> Image:
        return image_of(self.tree, [self.is_positive] * self.groups)


def places_of(question: Question) -> tuple[int, ...]:
    """Which of the named groups the expression of a question is about, in their order."""
    return used(parse(question.expression or "", len(question.groups)))


def formula_of(question: Question, kind: Kind, lattice: Lattice | None) -> Formula | None:
    """None of a question with weights. DP003 for exp() and ln(), whose images no library promises to be nested."""
    if question.expression is None:
        return None
    tree, places = parse(question.expression, len(question.groups)), places_of(question)
    for node in walk(tree):
        if isinstance(node, Operation) and node.symbol not in SYMBOLS:
            raise DPError(
                SHAPE,
                f"an expression with {node.symbol}() is compared, not explained",
                "Explain the expression without it: + - * /, parentheses and numbers can be explained.",
            )
    tree = renumbered(tree, {old: new for new, old in enumerate(places)})
    if lattice is None:
        return Formula(kind, tree, len(places))
    return Formula(kind, tree, len(places), lattice.low, lattice.high, lattice.step)


def check_predicates(many: int) -> None:
    """DP005 for more predicates than distances are computed of."""
    if many > MOST_PREDICATES:
        raise DPError(
            OUT_OF_RANGE,
            f"{many} predicates, more than {MOST_PREDICATES}, which is the most where an expression is explained",
            "Ask for a smaller l, or name fewer columns: attributes => '{age,education}'; or compare by weights.",
        )
