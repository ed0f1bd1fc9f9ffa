"""Counting, adding up over processes, the text exposition format; the log's lines."""

from __future__ import annotations

import json
import logging

import pytest

from pg_epsilon_proxy.logs import LineFormatter, event
from pg_epsilon_proxy.metrics import KINDS, SECONDS, Metrics, exposition, merged
from pg_epsilon_proxy.observing import CODES, sqlstate_of
from pg_epsilon_proxy.wire import messages


def test_exposition_format() -> None:
    metrics = Metrics()
    metrics.add("pg_epsilon_errors_total", "DP002")
    metrics.add("pg_epsilon_errors_total", "DP001", by=2)
    metrics.set("pg_epsilon_budget_epsilon", 0.5, 'a "b"\\\n')
    for seconds in (0.0001, 0.0005, 0.3, 1000):
        metrics.observe("pg_epsilon_dp_call_seconds", seconds, "paid")
    text = exposition(json.loads(json.dumps(metrics.snapshot())))
    lines = text.splitlines()
    assert text.endswith("\n") and "# TYPE pg_epsilon_dp_call_seconds histogram" in lines
    assert lines.index('pg_epsilon_errors_total{sqlstate="DP001"} 2') + 1 == lines.index(
        'pg_epsilon_errors_total{sqlstate="DP002"} 1'
    )
    assert 'pg_epsilon_budget_epsilon{dataset="a \\"b\\"\\\\\\n"} 0.5' in lines
    buckets = [line for line in lines if line.startswith("pg_epsilon_dp_call_seconds_bucket")]
    assert len(buckets) == len(SECONDS) + 1
    assert buckets[0] == 'pg_epsilon_dp_call_seconds_bucket{path="paid",le="0.0005"} 2', "a bound is in its bucket"
    assert buckets[-2:] == [
        'pg_epsilon_dp_call_seconds_bucket{path="paid",le="60"} 3',
        'pg_epsilon_dp_call_seconds_bucket{path="paid",le="+Inf"} 4',
    ]
    assert 'pg_epsilon_dp_call_seconds_count{path="paid"} 4' in lines
    assert 'pg_epsilon_dp_call_seconds_sum{path="paid"} 1000.3006' in lines


def test_processes_are_added_up_each_metric_by_its_rule() -> None:
    snapshots = []
    for number in (1, 2):
        metrics = Metrics()
        metrics.add("pg_epsilon_sessions", by=number)
        metrics.set("pg_epsilon_serving", number - 1)
        metrics.set("pg_epsilon_policy_version", number)
        metrics.observe("pg_epsilon_statement_seconds", number, "no")
        snapshots.append(metrics.snapshot())
    total = merged([*snapshots, {}])
    assert total["pg_epsilon_sessions"] == [[[], 3]]
    assert total["pg_epsilon_serving"] == [[[], 0]], "one worker that serves nobody is seen"
    assert total["pg_epsilon_policy_version"] == [[[], 2]]
    state = total["pg_epsilon_statement_seconds"][0][1]
    assert (sum(state[:-1]), state[-1]) == (2, 3)


def test_names_are_prometheus_names() -> None:
    for name, kind in KINDS.items():
        assert name.endswith("_total") == (kind.type == "counter"), name
        assert kind.help and "\n" not in kind.help


@pytest.mark.parametrize(("code", "label"), [("DP001", "DP001"), ("42P01", "42P01"), ("ZZZZZ", "other"), ("", "other")])
def test_a_made_up_code_is_no_label(code: str, label: str) -> None:
    raw = messages.fields_message(b"E", {"C": code.encode(), "M": b"x"})
    assert sqlstate_of(raw) == label
    assert len(CODES) < 400


def line(form: str, record: logging.LogRecord) -> str:
    return LineFormatter(form, 3).format(record)


def record_of(name: str, **fields: str | float | bool) -> logging.LogRecord:
    held: list[logging.LogRecord] = []
    log = logging.getLogger("pg_epsilon_proxy.test_lines")
    log.setLevel(logging.INFO)
    handler = logging.Handler()
    handler.emit = held.append  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        event(log, logging.INFO, name, **fields)
    finally:
        log.removeHandler(handler)
    return held[0]


def test_a_line_is_one_line_whatever_a_name_holds() -> None:
    """A user name is chosen by whoever knocks: it must not forge a line or a field."""
    user = 'x"\n{"event": "forged"} time=0 event=forged\\'
    record = record_of("login failed", user=user, seconds=0.25, ok=True)
    parsed = json.loads(line("json", record))
    assert (parsed["user"], parsed["worker"], parsed["seconds"], parsed["ok"]) == (user, 3, 0.25, True)
    text = line("logfmt", record)
    assert "\n" not in text and f"user={json.dumps(user)}" in text and "seconds=0.25 ok=true" in text
    assert text.count(" event=") == 2, "the forged one is inside the quotes"


def test_errors_and_other_libraries_do_not_speak() -> None:
    """An exception's text may hold a literal, and so may the arguments of a line that is not ours."""
    try:
        raise KeyError("a literal")
    except KeyError as error:
        ours = logging.LogRecord("pg_epsilon_proxy.x", 40, "f", 1, "failed", (), (KeyError, error, None))
        theirs = logging.LogRecord("asyncio", 40, "f", 1, "Task failed\n%s", (error,), (KeyError, error, None))
    for form in ("json", "logfmt"):
        for record in (ours, theirs):
            assert "a literal" not in line(form, record) and "KeyError" in line(form, record)
        assert "asyncio: Task failed" in line(form, theirs)
