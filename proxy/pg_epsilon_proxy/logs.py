"""What the proxy writes to its log: one line an event, in logfmt or JSON, without an analyst's literals (rule R5).

An event is a constant name and fields; no field may come from a statement, a value or an error's text. Lines of other
libraries are cut down to their constant part, because their arguments can be the repr of anything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from pg_epsilon_proxy.config import Log

OURS = "pg_epsilon_proxy"
MAX_TEXT = 200
_BARE = re.compile(r"[A-Za-z0-9_.:/+@%-]+")
Scalar = str | int | float | bool | None


def event(log: logging.Logger, level: int, name: str, **fields: Scalar) -> None:
    """Write one event. Names and public facts only; None is left out."""
    if log.isEnabledFor(level):
        log.log(level, name, extra={"fields": {key: value for key, value in fields.items() if value is not None}})


class LineFormatter(logging.Formatter):
    """logfmt or json. worker: this process's number, None where there is only one."""

    def __init__(self, form: str, worker: int | None = None) -> None:
        super().__init__()
        self._form = _json if form == "json" else _logfmt
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        whole, millis = divmod(int(record.created * 1000), 1000)
        facts: dict[str, Scalar] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{millis:03d}Z",
            "level": record.levelname.lower(),
        }
        if self._worker is not None:
            facts["worker"] = self._worker
        facts["event"] = _said(record)
        facts.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            facts.update(failure(record.exc_info[1]))
        return self._form({key: _short(value) for key, value in facts.items()})


def _said(record: logging.LogRecord) -> str:
    if record.name.partition(".")[0] == OURS:
        return record.getMessage()
    return f"{record.name}: {str(record.msg).partition(chr(10))[0]}"


def failure(error: BaseException | None) -> dict[str, Scalar]:
    """An exception's type and place; never its text, which may hold a value."""
    frame, place = error.__traceback__ if error is not None else None, None
    while frame is not None:
        place = f"{frame.tb_frame.f_code.co_name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return {"error": type(error).__name__, "place": place or "?"}


def _short(value: Scalar) -> Scalar:
    return value if not isinstance(value, str) or len(value) <= MAX_TEXT else value[:MAX_TEXT] + "…"


def _json(facts: Mapping[str, Scalar]) -> str:
    return json.dumps(facts)


def _logfmt(facts: Mapping[str, Scalar]) -> str:
    return " ".join(f"{key}={_quoted(value)}" for key, value in facts.items())


def _quoted(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)


def configure(settings: Log, worker: int | None = None) -> None:
    """Everything that is logged in this process goes to standard error in the chosen form; may be called again."""
    root = logging.getLogger()
    handler = next((h for h in root.handlers if isinstance(h, _Handler)), None)
    if handler is None:
        handler = _Handler()
        root.addHandler(handler)
    handler.setFormatter(LineFormatter(settings.format, worker))
    root.setLevel(settings.level.upper())
    logging.raiseExceptions = False  # a failing write must not print the record
    sys.excepthook = _uncaught


class _Handler(logging.StreamHandler[Any]):
    """Ours, to be found again."""


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        event(logging.getLogger(OURS), logging.CRITICAL, "failed", **failure(error.with_traceback(trace)))


def loop_failure(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """asyncio's exception handler: its own one writes out tasks and exceptions, texts and all."""
    log = logging.getLogger(f"{OURS}.loop")
    found = failure(context["exception"]) if "exception" in context else {}
    event(log, logging.ERROR, "background failure", what=str(context.get("message", "")).partition("\n")[0], **found)
