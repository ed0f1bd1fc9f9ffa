"""How one message will be answered: the Plan of session/rewriting.py."""

from __future__ import annotations

from collections.abc import Sequence

from ..session.rewriting import BoundParams, Field, Refusal, SessionIO
from .runner import run_unit
from .splice import splice
from .units import Meaning, Unit, executed, parameter_oids, raised


class BlockPlan:
    """A message's statements, at least one of them with blocks. Simple protocol: made for one message, run once."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = list(units)
        self._counts: list[int] = []
        self.refusal = next((unit.refusal for unit in units if unit.refusal is not None), None)
        self._stopped: str | None = None

    @property
    def text(self) -> str:
        return "; ".join(unit.text for unit in self._units)

    @property
    def param_oids(self) -> Sequence[int]:
        # COPY takes no parameters of the protocol.
        return [] if self.literal else parameter_oids(self._units[0])

    @property
    def hidden(self) -> int:
        return 0 if self.literal else len(self._units[0].marks)

    @property
    def fields(self) -> Sequence[Field] | None:
        # Of several statements each has its own columns; their names are right as they come.
        return self._units[0].fields if len(self._units) == 1 else None

    @property
    def literal(self) -> bool:
        return self._units[0].literal

    @property
    def executes(self) -> bool:
        return self.only.execute is not None

    @property
    def arguments(self) -> Sequence[str | None]:
        return [] if self.only.execute is None else self.only.execute.arguments

    @property
    def meaning(self) -> Meaning | None:
        return self.only.meaning

    @property
    def only(self) -> Unit:
        """The one statement of a Parse."""
        return self._units[0]

    async def run(self, bind: BoundParams | None, io: SessionIO) -> list[str]:
        """Run every statement's blocks, in order. A refusal of a later statement ends the message there: the earlier
        ones were paid for and are shown, then the error, as PostgreSQL would."""
        documents: list[str] = []
        self._counts, self._stopped = [], None
        for index, unit in enumerate(self._units):
            try:
                found = await run_unit(unit, bind, io)
            except Refusal as refusal:
                if index == 0:
                    raise
                self._stopped, self.refusal = raised(refusal), refusal
                break
            self._counts.append(len(found))
            documents += found
        return documents

    def splice_simple(self, documents: Sequence[str]) -> str:
        texts: list[str] = []
        rest = list(documents)
        for unit, count in zip(self._units, self._counts, strict=False):
            texts.append(_spliced(unit, rest[:count]))
            rest = rest[count:]
        if self._stopped is not None:
            texts.append(self._stopped)
        return "; ".join(texts)


def _spliced(unit: Unit, documents: Sequence[str]) -> str:
    if unit.execute is not None and unit.explained is None:
        return executed(unit.execute, documents)
    return splice(unit.template, dict(zip(unit.marks, documents, strict=True)))
