"""Comparisons that look at rows, for test_replay_compare.py; runs inside the server as broken_mechanisms.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pg_epsilon import entry
from pg_epsilon.explain import comparison, task

Replace = Callable[[Any, str, Any], None]
engine: Any = entry


def reads_a_row(replace: Replace) -> None:
    """The true count is read, whether it changes the answer or not."""
    sound = task.CompareTask.present

    def present(kind: Any, *found: Any) -> Mapping[str, Any]:
        engine.plpy.execute("SELECT count(*) AS n FROM audit.pay WHERE stage = 'red'")
        return sound(kind, *found)

    replace(task.CompareTask, "present", present)


def tells_the_truth(replace: Replace) -> None:
    """The difference of the true counts in place of the released ones."""
    sound = comparison.compare

    def compare(question: Any) -> Any:
        (row,) = engine.plpy.execute("SELECT count(*) AS n FROM audit.pay")
        return dataclasses.replace(sound(question), difference=float(row["n"]))

    replace(comparison, "compare", compare)


def takes_a_new_draw(replace: Replace) -> None:
    """Noise is drawn again at every comparison: nothing of it was paid for."""
    sound = comparison.compare

    def compare(question: Any) -> Any:
        from pg_epsilon import noise

        noise.current().laplace([0], l1_sensitivity=1, epsilon=1, label="again")
        return sound(question)

    replace(comparison, "compare", compare)


CONTROLS = {one.__name__: one for one in (reads_a_row, tells_the_truth, takes_a_new_draw)}
