"""Decisions in the rewriter: how EXPLAIN writes them, and which calls are dry runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rewrite_fake import NAMES, FakeIO

from pg_epsilon_proxy.rewrite.driver import SqlRewriter
from pg_epsilon_proxy.rewrite.explain import answered_from, call_text, lines
from pg_epsilon_proxy.session.rewriting import Refusal

BRAIN = SqlRewriter(NAMES)
QUERY = "SELECT count(*) FROM adult WHERE sex = 'f'"
REQUEST: dict[str, Any] = {
    "call": "dp_decide_detail",
    "query": QUERY,
    "decide": {
        "synthetic": {"schema": "public", "name": "adult_syn"},
        "tau_percent": "5",
        "policy": "fallback",
        "parameters": {"delta": "0.01", "score": "printed"},
    },
    "budget": {"epsilon": "0.1"},
    "mechanism": "em",
    "settings": {"dp.synthetic": "ignored"},
}
PLAIN: dict[str, Any] = {
    "from": {"schema": "public", "name": "adult"},
    "where": "age > 30",
    "aggregates": [{"function": "count", "argument": "*"}],
    "settings": {"dp.synthetic": "adult_syn", "dp.tau": "5%"},
}
DECISION = {
    "table": "public.adult_syn",
    "provenance": "public",
    "mechanism": "LM_count",
    "epsilon": "0.1",
    "synthetic": "749",
    "tau": "10",
    "low": "739",
    "high": "759",
}
FACTS: dict[str, Any] = {
    "mechanism": "LM_count",
    "charge": {"worst": {"epsilon": "0.2"}, "best": {"epsilon": "0.1"}},
    "margin": "0",
    "warnings": ["tau 10 is below 30"],
    "decide": [
        {"mechanism": "lm", "tau_min": "30", "epsilon_needed": "0.3", "recommended": True, "note": "with the count"},
        {"mechanism": "em", "tau_min": None, "epsilon_needed": None, "extension": True, "note": "the bit alone"},
    ],
    "decisions": [DECISION],
    "aggregates": [{"aggregate": "count", "mechanism": "LM_count", "why": "asked for"}],
}


def test_a_decision_is_written_as_its_call() -> None:
    assert call_text(REQUEST) == (
        "dp_decide_detail('SELECT count(*) FROM adult WHERE sex = ''f''', synthetic => 'public.adult_syn', "
        "tau_percent => 5, epsilon => 0.1, delta => 0.01, score => 'printed', mechanism => 'em', fallback => true)"
    )
    assert answered_from(REQUEST) == {}


@pytest.mark.parametrize(
    ("policy", "words"),
    [(None, "from adult_syn"), (" FallBack", "from adult_syn, the private one where the bound is unmet")],
)
def test_plain_sql_of_a_session_that_asks_a_synthetic_table(policy: str | None, words: str) -> None:
    request = {**PLAIN, "settings": {**PLAIN["settings"], "dp.synthetic_policy": policy}}
    assert call_text(request) == "SELECT count(*) FROM public.adult WHERE age > 30"
    assert answered_from(request) == {"answer": words}


@pytest.mark.parametrize("change", [{"settings": {}}, {"call": "dp_count"}, {"aggregates": []}])
def test_what_no_synthetic_table_answers(change: dict[str, Any]) -> None:
    """Explicit calls, the domain of a column, other sessions."""
    assert answered_from({**PLAIN, **change}) == {}


def test_explain_says_what_is_compared_with_what() -> None:
    shown = lines([("SELECT ...", {"answer": "from adult_syn", **FACTS})], "SELECT 1")
    assert shown == [
        "DP block $1: SELECT ...",
        "  answer: from adult_syn",
        "  mechanism: LM_count",
        "  charge, worst: epsilon 0.2",
        "  charge, best: epsilon 0.1",
        "  warning: tau 10 is below 30",
        "  count: LM_count, asked for",
        "    synthetic answer: 749, by public.adult_syn (public)",
        "    satisfied: strictly between 739 and 759, tau 10, at epsilon 0.1",
        "    decider: lm (recommended), least tau 30, epsilon needed 0.3, with the count",
        "    decider: em (extension), the bit alone",
        "Then, on released values only: SELECT 1",
    ]


def test_of_several_decisions_the_deciders_stay_in_the_documents() -> None:
    facts = {**FACTS, "decisions": [DECISION, DECISION], "aggregates": FACTS["aggregates"] * 2}
    shown = lines([("SELECT ...", facts)], "SELECT 1")
    assert sum("satisfied:" in line for line in shown) == 2 and not any("decider:" in line for line in shown)


@pytest.mark.parametrize("call", ["dp_plan(dp_count_request('adult'))", "dp_decide_plan('q', 'adult_syn', 10)"])
async def test_dry_runs_charge_nothing_and_say_so(call: str) -> None:
    for sql, word in ((f"SELECT {call}", None), (f"EXPLAIN (FORMAT JSON) SELECT {call}", "nothing")):
        io = FakeIO()
        io.request = REQUEST
        plan = await BRAIN.plan(sql, (), io, extended=False)
        assert plan is not None
        text = plan.splice_simple(await plan.run(None, io))
        assert io.upstream.requests == [] and len(io.upstream.planned) == 1 and io.notices == []
        if word is not None:
            value = json.loads(json.loads(text.split("$pge$")[1])[0]["c1"])
            assert value[0]["DP Blocks"][0]["Facts"]["charge"] == word


async def test_settings_of_a_session_reach_every_block() -> None:
    """Also of a statement that was planned under other settings: they are asked again for every run."""
    io = FakeIO()
    for setting in (None, "adult_syn", None):
        io.settings["dp.synthetic"] = setting
        plan = await BRAIN.plan("SELECT count(*) FROM adult", (), io, extended=False)
        assert plan is not None
        await plan.run(None, io)
        assert io.upstream.requests[-1]["settings"]["dp.synthetic"] == setting


async def test_a_decision_is_a_column_of_a_program() -> None:
    """NULL where the session has no synthetic table: nothing was decided."""
    for decisions, shown in ((None, None), ([{"decision": True}], "true"), ([{"decision": False}], "false")):
        io = FakeIO()
        io.upstream.bars, io.upstream.decisions = [[["1", "2", "3"]]], decisions
        plan = await BRAIN.plan("SELECT count(*), dp_decision(count(*)) FROM adult", (), io, extended=False)
        assert plan is not None
        text = plan.splice_simple(await plan.run(None, io))
        assert json.loads(text.split("$pge$")[1]) == [{"c1": "7", "c2": shown}]
        assert "t(c1 bigint, c2 boolean)" in text


@pytest.mark.parametrize("decisions", [[], [{}], [{"decision": True}] * 2, "true", 7])
async def test_decisions_of_another_form_are_not_shown(decisions: Any) -> None:
    io = FakeIO()
    io.upstream.bars, io.upstream.decisions = [[[None, None, None]]], decisions
    plan = await BRAIN.plan("SELECT dp_decision(count(*)) FROM adult", (), io, extended=False)
    assert plan is not None
    with pytest.raises(Refusal) as caught:
        await plan.run(None, io)
    assert caught.value.sqlstate == "DP006"


ONE_NUMBER = Refusal("DP003", "a decision is about one number of one relation", None, "RESET dp.synthetic")
MANY = (
    # (statement, the word that is shown, at its last place)
    ("SELECT education, count(*) FROM adult GROUP BY education", "education"),
    ("SELECT education AS e, count(*) FROM adult WHERE age > 3 GROUP BY 1", "education AS e"),
    ("SELECT count(*) FROM adult a JOIN ref.levels l ON l.education = a.education", "ref.levels l"),
    ("SELECT stddev(age) FROM adult", None),
)


@pytest.mark.parametrize(("sql", "word"), MANY)
@pytest.mark.parametrize("explain", ["", "EXPLAIN "])
async def test_what_a_decision_cannot_be_about_is_shown_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, sql: str, word: str | None, explain: str
) -> None:
    async def refuse(*request: Any, **options: Any) -> dict[str, Any]:
        raise Refusal(ONE_NUMBER.sqlstate, ONE_NUMBER.message, None, ONE_NUMBER.hint)

    for synthetic in ("adult_syn", None):
        io = FakeIO()
        io.settings["dp.synthetic"] = synthetic
        monkeypatch.setattr(io.upstream, "query", refuse)
        monkeypatch.setattr(io.upstream, "plan", refuse)
        plan = await BRAIN.plan(explain + sql, (), io, extended=False)
        assert plan is not None
        with pytest.raises(Refusal) as caught:
            await plan.run(None, io)
        expected = None if word is None or synthetic is None else (explain + sql).rindex(word)
        assert caught.value.position == expected
