"""A guided psql session: each statement of a script is explained, shown, sent through psql, answered and checked."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster import Failed

MARK = "@@pg_epsilon-demo"


@dataclass(frozen=True)
class Step:
    explanation: str
    expected: str  # "ok", "ok rows=4", "ok rows>=1", or a SQLSTATE
    showing: str  # regular expression that must occur in the answer; may be empty
    same: bool  # whether the answer must be the one that this statement got before
    user: str  # who asks; empty: as before
    statement: str


@dataclass(frozen=True)
class Outcome:
    sqlstate: str
    rows: int
    text: str

    def is_expected(self, expected: str) -> bool:
        if not expected.startswith("ok"):
            return self.sqlstate == expected
        wanted = re.fullmatch(r"ok(?: rows(>?=)(\d+))?", expected)
        if wanted is None:
            raise Failed(f"session.sql expects something unknown: {expected}")
        if self.sqlstate != "00000" or wanted[1] is None:
            return self.sqlstate == "00000"
        return self.rows == int(wanted[2]) if wanted[1] == "=" else self.rows >= int(wanted[2])


def read(script: Path) -> Iterator[Step]:
    """The steps of a script: blocks between empty lines; a block without a statement is a comment."""
    for block in re.split(r"\n\s*\n", script.read_text(encoding="utf-8")):
        lines = block.strip().splitlines()
        notes = [line for line in lines if line.startswith("--")]
        statement = "\n".join(line for line in lines if not line.startswith("--"))
        if statement:
            words = " ".join(line[2:].strip() for line in notes if not line.startswith("--@"))
            marks = dict(re.findall(r"^--@(\w*) +(.*?) *$", "\n".join(notes), re.M))
            same = "same" in marks
            yield Step(words, marks.get("", "ok"), marks.get("showing", ""), same, marks.get("as", ""), statement)


class Session:
    """One psql, driven over a pipe, its answers shown as they come."""

    def __init__(self, command: list[str], environment: dict[str, str], prompt: str) -> None:
        self.prompt = prompt
        # Line buffering keeps answers, notices and errors in the order in which they came.
        self.psql = subprocess.Popen(  # noqa: S603
            ["/usr/bin/stdbuf", "-oL", *command, "-X", "-q", "-P", "pager=off"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
        )
        # \\d and SET leave these as they are, and psql sets them at the first query.
        self.run("\\set SQLSTATE 00000\n\\set ROW_COUNT 0")

    def run(self, statement: str) -> Outcome:
        assert self.psql.stdin and self.psql.stdout  # noqa: S101  (both are pipes: for the type checker)
        try:
            self.psql.stdin.write(f"{statement}\n\\echo {MARK} :SQLSTATE :ROW_COUNT\n")
            self.psql.stdin.flush()
        except BrokenPipeError:
            pass
        text = ""
        for line in self.psql.stdout:
            if line.startswith(MARK):
                _, sqlstate, rows = line.split()
                return Outcome(sqlstate, int(rows), text)
            text += line
            print("  " + line, end="", flush=True)
        raise Failed(f"psql ended with exit status {self.psql.wait()}")

    def show(self, step: Step, answers: dict[str, str]) -> None:
        """Run one step; `answers` remembers what each statement got. Failed if the outcome is not the expected one."""
        bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
        print(f"\n{bold}{textwrap.fill(step.explanation, 110)}{plain}")
        for number, line in enumerate(step.statement.splitlines()):
            print(f"{self.prompt}{'=' if number == 0 else '-'}> {line}", flush=True)
        outcome = self.run(step.statement)
        if not outcome.is_expected(step.expected):
            got = f"SQLSTATE {outcome.sqlstate} and {outcome.rows} rows"
            raise Failed(f"expected {step.expected}, got {got}, from: {step.statement}")
        if not re.search(step.showing, outcome.text):
            raise Failed(f"expected an answer that shows {step.showing}, from: {step.statement}")

        table = "\n".join(line for line in outcome.text.splitlines() if not line.startswith("NOTICE"))
        if step.same and table != answers.get(step.statement):
            raise Failed(f"expected the answer that was given before, from: {step.statement}")
        answers[step.statement] = table

    def close(self) -> None:
        assert self.psql.stdin  # noqa: S101
        self.psql.stdin.close()
        try:
            self.psql.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.psql.kill()
