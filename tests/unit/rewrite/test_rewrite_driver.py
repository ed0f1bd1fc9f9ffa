"""The driver against a session without a server: what is asked where, in which order, and what is charged when."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from rewrite_fake import INT4, INT8, NAMES, FakeIO

from pg_epsilon_proxy.rewrite.driver import MAX_DEPTH, MAX_STATEMENT, SqlRewriter
from pg_epsilon_proxy.rewrite.plans import BlockPlan
from pg_epsilon_proxy.session.rewriting import JSONB_OID, BoundParams, FacadeError, Made, Plan, Refusal, Rewriter
from pg_epsilon_proxy.wire import messages

BRAIN = SqlRewriter(NAMES)
GROUPED = "SELECT education, count(*) FROM adult GROUP BY 1"
COUNT = "SELECT count(*) FROM adult"


async def planned(io: FakeIO, sql: str, *, extended: bool = False) -> BlockPlan:
    plan = await BRAIN.plan(sql, (), io, extended=extended)
    assert plan is not None
    return plan


async def answered(io: FakeIO, sql: str) -> str:
    """What the facade executes for a simple Query."""
    plan = await planned(io, sql)
    return plan.splice_simple(await plan.run(None, io))


async def refused(io: FakeIO, sql: str, *, extended: bool = False) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await BRAIN.plan(sql, (), io, extended=extended)
    assert io.upstream.requests == []
    assert caught.value.hint
    return caught.value


def test_it_is_the_seams_rewriter() -> None:
    brain: Rewriter = BRAIN
    plan: Plan = BlockPlan([])
    assert brain.mentions(COUNT) and plan is not None


async def test_simple_query() -> None:
    io = FakeIO()
    assert await answered(io, GROUPED) == (
        "SELECT b1.c1 AS education, b1.c2 AS count FROM (SELECT c1, c2 FROM pg_catalog.jsonb_to_recordset(CAST("
        '$pge$[{"c1": "x\\u0024", "c2": "7"}]$pge$ AS pg_catalog.jsonb)) AS t(c1 text, c2 bigint)) AS b1'
    )
    assert io.upstream.requests[0]["settings"] == io.settings
    assert io.notices == [("NOTICE", "dp: laplace, epsilon 0.1 charged, ±30 at 95%")]


async def test_the_original_is_described_before_anything_else() -> None:
    """PostgreSQL's errors win, and nothing is charged before them."""
    io = FakeIO()
    io.failing["nope"] = "42703"
    with pytest.raises(FacadeError) as caught:
        await BRAIN.plan("SELECT nope FROM adult", (), io, extended=False)
    assert caught.value.sqlstate == "42703"
    assert io.fetched == [] and io.upstream.requests == []


async def test_a_plain_count_needs_no_second_description() -> None:
    io = FakeIO()
    await planned(io, COUNT)
    assert io.described == [COUNT]
    io = FakeIO()
    await planned(io, GROUPED)
    assert io.described == [GROUPED, "SELECT education, count(*) FROM adult GROUP BY education"]


async def test_planning_and_describing_charge_nothing() -> None:
    io = FakeIO()
    await planned(io, COUNT, extended=True)
    assert io.upstream.requests == []


async def test_extended_protocol_hides_one_parameter_a_block() -> None:
    io = FakeIO()
    io.parameters, io.values = (INT4,), "[41]"
    plan = await planned(io, "SELECT count(*), (SELECT count(*) FROM adult) FROM adult WHERE age > $1", extended=True)
    assert list(plan.param_oids) == [INT4, JSONB_OID, JSONB_OID]
    assert (plan.hidden, plan.literal) == (2, False)
    assert "jsonb_to_recordset($2)" in plan.text and "jsonb_to_recordset($3)" in plan.text
    documents = await plan.run(BoundParams((1,), (b"\0\0\0\x29",)), io)
    assert [json.loads(text) for text in documents] == [[{"c1": "7"}], [{"c1": "7"}]]
    assert [request["where"] for request in io.upstream.requests] == ["age > CAST('41' AS integer)", None]


async def test_parameters_are_decoded_by_the_facade_and_stay_exact() -> None:
    io = FakeIO()
    io.parameters, io.values = (INT4,), "[12345678901234567890.10]"
    plan = await planned(io, "SELECT count(*) FROM adult WHERE age > $1", extended=True)
    await plan.run(BoundParams((), (b"x",)), io)
    assert io.upstream.requests[0]["where"] == "age > CAST('12345678901234567890.10' AS integer)"
    assert "SELECT pg_catalog.jsonb_build_array($1)::pg_catalog.text" in io.fetched


@pytest.mark.parametrize(
    ("value", "constant"), [('["it\'s"]', "'it''s'"), ("[null]", "NULL"), ("[true]", "'true'"), ('["$1"]', "'$1'")]
)
async def test_a_parameter_becomes_a_typed_constant(value: str, constant: str) -> None:
    io = FakeIO()
    io.parameters, io.values = (INT4,), value
    plan = await planned(io, "SELECT count(*) FROM adult WHERE age > $1", extended=True)
    await plan.run(BoundParams((), (b"x",)), io)
    assert io.upstream.requests[0]["where"] == f"age > CAST({constant} AS integer)"


async def test_a_composite_parameter_is_refused_before_the_charge() -> None:
    io = FakeIO()
    io.parameters, io.values = (INT4,), '[{"a": 1}]'
    plan = await planned(io, "SELECT count(*) FROM adult WHERE age > $1", extended=True)
    with pytest.raises(Refusal) as caught:
        await plan.run(BoundParams((), (b"x",)), io)
    assert caught.value.sqlstate == "DP003" and io.upstream.requests == []


async def test_a_parameter_in_a_simple_query_is_postgresqls_error() -> None:
    io = FakeIO()
    io.parameters = (INT4,)
    assert await BRAIN.plan("SELECT count(*) FROM adult WHERE age > $1", (), io, extended=False) is None


async def test_a_relation_that_is_behind_the_policy_is_dp006() -> None:
    brain = SqlRewriter(replace(NAMES, changed=frozenset({("public", "adult")})))
    io = FakeIO()
    with pytest.raises(Refusal) as caught:
        await brain.plan(COUNT, (), io, extended=False)
    assert caught.value.sqlstate == "DP006" and caught.value.hint
    assert await brain.plan("SELECT count(*) FROM clinic.visits", (), io, extended=False) is not None
    io.shadowed = {"adult"}
    assert await brain.plan("SELECT * FROM adult", (), io, extended=False) is None


async def test_a_temporary_table_shadows_the_protected_one() -> None:
    io = FakeIO()
    io.shadowed = {"adult"}
    assert await BRAIN.plan("SELECT * FROM adult", (), io, extended=False) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'adult'",
        "WITH adult AS (SELECT 1) SELECT * FROM adult",
        "CREATE TABLE adult (age int)",
        "CREATE TEMP VIEW adult AS SELECT 7 AS x",
        "CREATE INDEX ON adult (age)",
        "ALTER TABLE adult ADD x int",
        "GRANT SELECT ON adult TO bob",
        "LOCK adult",
        "ANALYZE adult",
        "EXECUTE something(1)",
        "SELECT FROM WHERE adult",
        "DO 'SELECT * FROM adult'",
        "",
        ";",
    ],
)
async def test_statements_that_pass_unchanged_ask_nothing(sql: str) -> None:
    io = FakeIO()
    assert await BRAIN.plan(sql, (), io, extended=False) is None
    assert io.described == []


async def test_a_long_text_over_protected_data_is_refused_without_cutting_it_up() -> None:
    io = FakeIO()
    for sql in (COUNT, "SELECT dp_count('adult')", "INSERT INTO mine SELECT count(*) FROM public.adult"):
        assert f"at most {MAX_STATEMENT} characters" in (await refused(io, sql + " " * MAX_STATEMENT)).message
    assert io.described == []


async def test_a_text_that_may_be_deeper_than_walks_can_go_is_not_walked() -> None:
    """PostgreSQL refuses most of them; one that its parser bears is refused here."""
    io = FakeIO()
    wide = COUNT + " WHERE age = 1" + " OR age = 1" * (MAX_DEPTH // 2)
    assert len(wide) < MAX_STATEMENT
    assert "nested too deeply" in (await refused(io, wide)).message
    assert await BRAIN.plan(COUNT + " WHERE 1" + "+1" * MAX_DEPTH + " > 0", (), io, extended=False) is None
    assert io.described == []


async def test_a_long_list_is_no_deep_text() -> None:
    io = FakeIO()
    listed = COUNT + " WHERE age IN (" + ",".join(["1"] * MAX_DEPTH) + ")"
    plan = await BRAIN.plan(listed, (), io, extended=False)
    assert plan is not None


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO mine VALUES ('adult', 'FROM adult', '\"RangeVar\":{\"relname\":\"adult\"')",
        "WITH adult AS (VALUES (1)) SELECT * FROM adult",
        "SELECT adult.age FROM labels AS adult",
        "SELECT other.dp_count('adult')",
        "SELECT count(*) FROM other.adult",
        "SELECT FROM adult WHERE (",
    ],
)
async def test_a_long_text_that_is_none_of_ours_passes(sql: str) -> None:
    io = FakeIO()
    assert await BRAIN.plan(sql + " " * MAX_STATEMENT, (), io, extended=False) is None


async def test_a_long_text_over_a_temporary_table_of_a_protected_name_passes() -> None:
    io = FakeIO()
    io.shadowed = {"adult"}
    assert await BRAIN.plan("SELECT * FROM adult" + " " * MAX_STATEMENT, (), io, extended=False) is None


@pytest.mark.parametrize(
    ("sql", "status", "sqlstate"),
    [
        ("SELECT count(*) FROM adult WHERE education = 'x'", "DateStyle", "DP003"),
        ("SELECT count(*) FROM adult WHERE education = 'x'", "TimeZone", "DP003"),
        ("SELECT 'x', count(*) FROM adult WHERE age > $1", "DateStyle", None),
    ],
)
async def test_text_constants_mean_what_they_meant_when_prepared(sql: str, status: str, sqlstate: str | None) -> None:
    io = FakeIO()
    io.status[status] = "as before"
    io.parameters, io.values = (INT4,), "[41]"
    plan = await planned(io, sql, extended=True)
    io.status[status] = "something else"
    if sqlstate is None:
        await plan.run(BoundParams((), (b"41",)), io)
        return
    with pytest.raises(Refusal) as caught:
        await plan.run(BoundParams((), (b"41",)), io)
    assert (caught.value.sqlstate, status in caught.value.message) == (sqlstate, True)
    assert io.upstream.requests == []


async def test_names_mean_what_they_meant_when_prepared() -> None:
    io = FakeIO()
    plan = await planned(io, COUNT, extended=True)
    io.path = "elsewhere"
    await plan.run(BoundParams((), ()), io)
    io.shadowed = {"adult"}
    with pytest.raises(Refusal) as caught:
        await plan.run(BoundParams((), ()), io)
    assert caught.value.sqlstate == "DP003" and "search_path" in caught.value.message
    assert len(io.upstream.requests) == 1


@pytest.mark.parametrize(("value", "sqlstate"), [("maybe", "DP005"), ("ON", None), ("", None), ("0", None)])
async def test_dp_notices_is_a_boolean(value: str, sqlstate: str | None) -> None:
    io = FakeIO()
    io.settings["dp.notices"] = value
    plan = await planned(io, COUNT)
    if sqlstate is None:
        await plan.run(None, io)
        return
    with pytest.raises(Refusal) as caught:
        await plan.run(None, io)
    assert caught.value.sqlstate == sqlstate and io.upstream.requests == []


async def test_error_bars_come_behind_the_aggregates_rounded_outwards() -> None:
    io = FakeIO()
    io.upstream.bars = [[["4.5", "9.2", "1.25"]]]
    plan = await planned(io, "SELECT dp_low(count(*)), dp_high(count(*)), dp_stderr(count(*)) FROM adult")
    (document,) = await plan.run(None, io)
    assert json.loads(document) == [{"c1": "7", "c2": "4", "c3": "10", "c4": "1.25"}]
    assert io.upstream.requests[0]["bars"] is True
    io.upstream.bars = [[[None, None, None]]]
    (document,) = await plan.run(None, io)
    assert json.loads(document) == [{"c1": "7", "c2": None, "c3": None, "c4": None}]


@pytest.mark.parametrize("bars", [None, [], [[]], [[["1", "2"]]], [[["x", "2", "3"]]]])
async def test_bars_of_another_form_are_dp006(bars: Any) -> None:
    io = FakeIO()
    io.upstream.bars = bars
    plan = await planned(io, "SELECT dp_low(count(*)), dp_stderr(count(*)) FROM adult")
    with pytest.raises(Refusal) as caught:
        await plan.run(None, io)
    assert caught.value.sqlstate == "DP006"


async def test_a_deep_statement_is_refused() -> None:
    assert (await refused(FakeIO(), "SELECT " + "- " * 3000 + "(SELECT count(*) FROM adult)")).sqlstate == "DP003"


async def test_raw_rows_and_writes() -> None:
    assert (await refused(FakeIO(), "SELECT * FROM adult")).sqlstate == "DP002"
    assert (await refused(FakeIO(), "INSERT INTO adult SELECT count(*) FROM adult")).sqlstate == "42501"
    assert (await refused(FakeIO(), "COPY adult TO STDOUT")).sqlstate == "DP002"


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE VIEW v AS {COUNT}",
        f"CREATE MATERIALIZED VIEW v AS {COUNT}",
        f"CREATE RULE r AS ON INSERT TO t DO {COUNT}",
        f"CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC {COUNT}; END",
    ],
)
async def test_what_would_keep_a_block_is_refused(sql: str) -> None:
    assert (await refused(FakeIO(), sql)).sqlstate == "DP003"


async def test_constants_must_mean_what_the_parser_read() -> None:
    io = FakeIO()
    io.status["standard_conforming_strings"] = "off"
    assert (await refused(io, COUNT)).sqlstate == "DP003"
    io = FakeIO()
    io.status["client_encoding"] = "LATIN1"
    assert (await refused(io, "SELECT count(*) AS é FROM adult")).sqlstate == "DP003"
    assert await planned(io, COUNT)


# -- several statements ------------------------------------------------------------------------------------------------


async def test_transaction_control_and_other_blocks_may_precede() -> None:
    io = FakeIO()
    text = await answered(io, f"BEGIN; {COUNT}; SAVEPOINT a; SHOW x; SELECT 1; {COUNT}; COMMIT")
    parts = text.split("; ")
    assert [parts[i] for i in (0, 2, 3, 4, 6)] == ["BEGIN", "SAVEPOINT a", "SHOW x", "SELECT 1", "COMMIT"]
    assert len(io.upstream.requests) == 2
    assert (await planned(io, f"{COUNT}; SELECT 1")).fields is None


async def test_texts_around_a_block_are_the_clients_own() -> None:
    text = await answered(FakeIO(), f"/* é */ SELECT 'é€𝄞'  ; {COUNT} ;; SELECT  'ü' AS \"Ü\" -- end")
    first, _, last = text.split("; ")
    assert first.endswith("SELECT 'é€𝄞'  ") and last == "SELECT  'ü' AS \"Ü\" -- end"


@pytest.mark.parametrize(
    "first",
    ["SET dp.epsilon = 1", "CREATE TEMP TABLE adult (age int)", "SELECT set_config('a.b', '', false)", "TABLE labels"],
)
async def test_what_may_change_a_blocks_meaning_may_not_precede(first: str) -> None:
    assert str((await refused(FakeIO(), f"{first}; {COUNT}")).hint) == "Send it alone: one statement a message."


async def test_anything_may_follow() -> None:
    io = FakeIO()
    assert (await answered(io, f"{COUNT}; SET a.b = 1; DROP TABLE mine")).endswith("; SET a.b = 1; DROP TABLE mine")


async def test_a_later_refusal_stands_where_it_happens() -> None:
    """As in PostgreSQL: BEGIN has run, so the transaction is left in error."""
    io = FakeIO()
    text = await answered(io, f"BEGIN; {COUNT}; SELECT * FROM adult; {COUNT}")
    assert text.split("; ")[-1].startswith("SELECT dp.raise('DP002', 'rows of adult are private', NULL, ")
    assert len(io.upstream.requests) == 1


async def test_a_later_block_that_cannot_be_paid_stands_where_it_happens() -> None:
    io = FakeIO()
    io.upstream.refuse_at = 1
    text = await answered(io, f"{COUNT}; {COUNT}; SELECT 1")
    assert text.endswith("; SELECT dp.raise('DP001', 'the budget is exhausted', NULL, 'it''s gone')")


async def test_a_first_block_that_cannot_be_paid_refuses_the_message() -> None:
    io = FakeIO()
    io.upstream.refuse_at = 0
    plan = await planned(io, f"{COUNT}; SELECT 1")
    with pytest.raises(Refusal):
        await plan.run(None, io)


async def test_a_facade_error_after_begin_is_met_by_postgresql() -> None:
    io = FakeIO()
    io.failing["nope"] = "42703"
    assert await BRAIN.plan("BEGIN; SELECT nope FROM adult", (), io, extended=False) is None
    with pytest.raises(FacadeError):
        await BRAIN.plan("SELECT 1; SELECT nope FROM adult", (), io, extended=False)


async def test_several_statements_in_one_parse_are_postgresqls_error() -> None:
    assert await BRAIN.plan(f"{COUNT}; {COUNT}", (), FakeIO(), extended=True) is None


# -- wrappers ----------------------------------------------------------------------------------------------------------


async def test_explain_asks_for_a_plan_only() -> None:
    io = FakeIO()
    text = await answered(io, f"EXPLAIN ANALYZE {GROUPED}")
    lines = [row["c1"] for row in json.loads(text.split("$pge$")[1].replace("\\u0024", "$"))]
    assert lines == [
        "DP block $1: dp_group_by('public.adult', keys => ['education'])",
        "  mechanism: laplace",
        "  charge, worst: epsilon 0.1",
        "  charge, best: nothing",
        "  expected error: ±30 at 95%",
        "  budget left: epsilon 0.9",
        "  warning: groups may be missing",
        "  count: laplace, smaller expected error",
        "    considered: R2T, expected error 31",
        "Then, on released values only: SELECT b1.c1 AS education, b1.c2 AS count FROM (SELECT c1, c2 FROM "
        "pg_catalog.jsonb_to_recordset($1) AS t(c1 text, c2 bigint)) AS b1",
    ]
    assert text.startswith('SELECT t.c1::pg_catalog.text AS "QUERY PLAN" FROM ')
    assert io.upstream.requests == [] and len(io.upstream.planned) == 1 and io.notices == []


async def test_explain_as_a_document() -> None:
    text = await answered(FakeIO(), f"EXPLAIN (FORMAT JSON) {COUNT}")
    value = json.loads(json.loads(text.split("$pge$")[1])[0]["c1"])
    assert value[0]["DP Blocks"][0]["Call"] == "dp_count('public.adult')"
    text = await answered(FakeIO(), f"EXPLAIN (FORMAT YAML) {COUNT}")
    assert "t.c1::pg_catalog.text" in text and json.loads(json.loads(text.split("$pge$")[1])[0]["c1"]) == value
    text = await answered(FakeIO(), f"EXPLAIN (FORMAT XML) {COUNT} WHERE age < 3 AND education = '<&'")
    document = ElementTree.fromstring(json.loads(text.split("$pge$")[1])[0]["c1"])  # noqa: S314  (our own text)
    call, fact = document[0][0], document[0][1]
    assert "t.c1::pg_catalog.xml" in text and fact.get("Name") == "call"
    assert "<&" in (call.text or "") and (call.text or "").startswith("dp_count('public.adult', predicate => 'age < 3")
    assert (await refused(FakeIO(), f"EXPLAIN (FORMAT NONSENSE) {COUNT}")).sqlstate == "DP003"


async def test_copy_takes_no_parameters_so_its_documents_are_literals() -> None:
    io = FakeIO()
    plan = await planned(io, f"COPY ({COUNT}) TO STDOUT", extended=True)
    assert (plan.literal, plan.hidden, list(plan.param_oids)) == (True, 0, [])
    text = plan.splice_simple(await plan.run(BoundParams((), ()), io))
    assert text.startswith(
        "COPY (SELECT b1.c1 AS count FROM (SELECT c1 FROM pg_catalog.jsonb_to_recordset(CAST($pge$[{"
    )


PREPARED = 'PREPARE "P p"(integer) AS SELECT count(*) FROM adult WHERE age > $1'
REWRITTEN = "SELECT b1.c1 AS count FROM (SELECT c1 FROM pg_catalog.jsonb_to_recordset($2) AS t(c1 bigint)) AS b1"


async def _prepare(io: FakeIO) -> None:
    io.parameters = (INT4,)
    assert await answered(io, PREPARED) == PREPARED, "the facade keeps the client's own text"
    io.texts["P p"] = PREPARED
    assert io.upstream.requests == []


async def test_sql_prepare_and_execute() -> None:
    io = FakeIO()
    await _prepare(io)
    io.values = "[42]"
    text = await answered(io, 'EXECUTE "P p"(40 + 2)')
    assert text == """EXECUTE _pge_1(E'42', $pge$[{"c1": "7"}]$pge$)"""
    assert io.held == [(REWRITTEN, (INT4, JSONB_OID))]
    assert "SELECT pg_catalog.jsonb_build_array(CAST(40 + 2 AS integer))::pg_catalog.text" in io.fetched
    assert io.upstream.requests[0]["where"] == "age > CAST('42' AS integer)"


async def test_an_execute_of_the_extended_protocol_binds_what_it_executes() -> None:
    io = FakeIO()
    await _prepare(io)
    io.values = "[42]"
    plan = await planned(io, 'EXECUTE "P p"(42)', extended=True)
    assert (plan.text, list(plan.param_oids)) == (REWRITTEN, [INT4, JSONB_OID])
    assert (plan.executes, plan.literal, plan.hidden) == (True, False, 1)
    assert await plan.run(BoundParams((), ()), io) == ['[{"c1": "7"}]']
    assert plan.arguments == ["42"] and io.held == []


async def test_a_statement_by_parse_is_executed_by_sql_and_one_by_sql_is_bound() -> None:
    io = FakeIO()
    io.parameters, io.values = (INT4,), "[41]"
    sql = "SELECT count(*) FROM adult WHERE age > $1"
    first = await planned(io, sql, extended=True)
    io.prepared["p"], io.texts["p"] = Made(sql, (0,), False, first.meaning), sql
    await _prepare(io)
    io.parameters = (INT4,)
    assert "_pge_1(E'41'" in await answered(io, "EXECUTE p(41)")
    made = await BRAIN.noted("P p", io)
    assert made is not None and made.by_sql
    plan = await BRAIN.again(made, io)
    assert plan is not None and (plan.text, plan.executes) == (REWRITTEN, False)
    assert await plan.run(BoundParams((), (b"41",)), io) == ['[{"c1": "7"}]']


async def test_a_table_made_of_an_execute() -> None:
    io = FakeIO()
    await _prepare(io)
    io.values = "[42]"
    text = await answered(io, 'CREATE TEMP TABLE t AS EXECUTE "P p"(42)')
    assert text.startswith("EXECUTE _pge_1(E'42'")
    assert io.held == [(f"CREATE TEMPORARY TABLE t AS {REWRITTEN}", (INT4, JSONB_OID))]


async def test_what_is_prepared_is_planned_as_names_are_now() -> None:
    io = FakeIO()
    io.parameters = (INT4,)
    plan = await planned(io, "SELECT count(*) FROM adult WHERE age > $1", extended=True)
    made = Made("SELECT count(*) FROM adult WHERE age > $1", (), False, plan.meaning)
    io.parameters = (INT8,)
    later = await BRAIN.again(made, io)
    assert later is not None and list(later.param_oids) == [INT8, JSONB_OID]
    io.shadowed = {"adult"}
    assert await BRAIN.again(made, io) is None


async def test_prepared_constants_mean_what_they_meant_or_nothing() -> None:
    io = FakeIO()
    io.status["DateStyle"] = "ISO, MDY"
    sql = "SELECT count(*) FROM adult WHERE education = '1/2/2024'"
    made = Made(sql, (), False, (await planned(io, sql, extended=True)).meaning)
    io.status["DateStyle"] = "ISO, DMY"
    later = await BRAIN.again(made, io)
    assert later is not None
    with pytest.raises(Refusal, match="DateStyle"):
        await later.run(BoundParams((), ()), io)


async def test_execute_believes_only_what_the_session_still_holds() -> None:
    io = FakeIO()
    await _prepare(io)
    io.texts["P p"] = "PREPARE p AS SELECT 1"
    assert await BRAIN.plan('EXECUTE "P p"(1)', (), io, extended=False) is None
    assert io.prepared == {}


async def test_a_prepare_whose_name_is_taken_is_not_noted() -> None:
    io = FakeIO()
    io.texts["p"] = "PREPARE p AS SELECT 1"
    await answered(io, f"PREPARE p AS {COUNT}")
    assert io.prepared == {}


async def test_execute_with_other_arguments_is_postgresqls_error() -> None:
    io = FakeIO()
    await _prepare(io)
    assert await BRAIN.plan('EXECUTE "P p"(1, 2)', (), io, extended=False) is None


async def test_arguments_for_a_statement_without_parameters_are_refused() -> None:
    io = FakeIO()
    await answered(io, f"PREPARE p AS {COUNT}")
    io.texts["p"] = f"PREPARE p AS {COUNT}"
    assert (await refused(io, "EXECUTE p(1)")).sqlstate == "42601"
    assert io.upstream.requests == []


@pytest.mark.parametrize("extended", [False, True])
async def test_explain_execute_asks_for_a_plan_only(extended: bool) -> None:
    io = FakeIO()
    await _prepare(io)
    io.values = "[42]"
    plan = await planned(io, 'EXPLAIN EXECUTE "P p"(40 + 2)', extended=extended)
    assert plan.executes and plan.text.startswith('SELECT t.c1::pg_catalog.text AS "QUERY PLAN"')
    text = plan.splice_simple(await plan.run(None, io))
    lines = [row["c1"] for row in json.loads(text.split("$pge$")[1].replace("\\u0024", "$"))]
    assert lines[0] == "DP block $2: dp_count('public.adult', predicate => 'age > CAST(''42'' AS integer)')"
    assert lines[-1].startswith("Then, on released values only: SELECT b1.c1 AS count FROM (SELECT c1 FROM ")
    assert "jsonb_to_recordset($2)" in lines[-1]
    assert io.upstream.requests == [] and len(io.upstream.planned) == 1
    assert "FORMAT" in (await refused(io, 'EXPLAIN (FORMAT NONE) EXECUTE "P p"(1)')).message


# -- calls, views, answers ---------------------------------------------------------------------------------------------


async def test_an_explicit_calls_request_comes_from_the_facade() -> None:
    io = FakeIO()
    text = await answered(io, "SELECT dp_count('adult', epsilon => 0.1)")
    assert io.upstream.requests == [io.request]
    assert "SELECT CAST(dp.dp_count_request('adult', epsilon => 0.1) AS pg_catalog.text)" in io.fetched
    assert text.startswith('SELECT dp.dp_count_result(CAST($pge${"columns": [], "rows": [["7"]], ')


async def test_a_call_about_a_release_is_about_the_sessions_last_one() -> None:
    """Unless it names one, or asks about none; and an answer without groups is no such release."""
    io = FakeIO()
    for name, keys, of, expected in (
        ("first", 1, None, None),
        ("second", 0, None, "first"),
        ("third", 2, "named", "named"),
        ("fourth", 0, None, "third"),
    ):
        io.request = {"from": {"schema": "public", "name": "adult"}, "aggregates": [1], "of": of}
        io.upstream.more = {"request_id": name, "keys": keys}
        await answered(io, "SELECT dp_count('adult', epsilon => 0.1)")
        assert io.upstream.requests[-1]["of"] == expected
    del io.request["of"]
    await answered(io, "SELECT dp_count('adult', epsilon => 0.1)")
    assert "of" not in io.upstream.requests[-1]


async def test_dp_plan_charges_nothing() -> None:
    io = FakeIO()
    await answered(io, "SELECT dp_plan(dp_count_request('adult'))")
    assert io.upstream.planned == [io.request] and io.upstream.requests == []


async def test_what_is_left_is_asked_for_directly() -> None:
    io = FakeIO()
    io.values = "people"
    io.upstream.answer = [("4.3",)]
    text = await answered(io, "SELECT dp_budget_left('people')")
    assert '$pge$["4.3"]$pge$' in text and io.upstream.queries == ["SELECT dp.dp_budget_left($1)::text"]
    await answered(io, "EXPLAIN SELECT dp_budget_left('people')")
    assert io.upstream.requests == io.upstream.planned == [] and len(io.upstream.queries) == 1


async def test_a_view_is_asked_of_the_private_side_by_our_own_text() -> None:
    io = FakeIO()
    text = await answered(io, "SELECT * FROM budget WHERE dataset = 'x'")
    assert io.upstream.queries == ['SELECT "dataset"::pg_catalog.text, "left"::pg_catalog.text FROM "dp"."budget"']
    assert '[{"c1": "census", "c2": "0.9"}]' in text
    assert io.notices == []


@pytest.mark.parametrize(
    "rows", [[["1", "2"]], [], [["1"], ["2"]], [[1]], "nothing"], ids=["wide", "none", "two", "number", "no list"]
)
async def test_an_answer_of_another_form_is_dp006(rows: Any) -> None:
    io = FakeIO()
    io.upstream.rows_of = lambda request: rows
    plan = await planned(io, COUNT)
    with pytest.raises(Refusal) as caught:
        await plan.run(None, io)
    assert caught.value.sqlstate == "DP006"


async def test_statement_timeout_bounds_the_wait() -> None:
    io = FakeIO()
    io.timeout = "60000"
    await answered(io, f"{COUNT}; SELECT (SELECT count(*) FROM adult) + count(*) FROM adult")
    assert all(timeout is not None and 30 < timeout <= 60 for timeout in io.upstream.timeouts)
    io.timeout = "0"
    await answered(io, COUNT)
    assert io.upstream.timeouts[-1] is None


@pytest.mark.parametrize(
    ("application", "setting", "shown"),
    [("psql", None, True), ("psql", "off", False), ("app", None, False), ("app", "on", True), ("app", "", False)],
)
async def test_notices_default_to_psql_only(application: str, setting: str | None, shown: bool) -> None:
    io = FakeIO()
    io.settings |= {"application_name": application, "dp.notices": setting}
    await answered(io, COUNT)
    assert bool(io.notices) is shown


# -- where it is -------------------------------------------------------------------------------------------------------


async def test_places_count_from_the_start_of_the_message() -> None:
    io = FakeIO()
    assert (await refused(io, "/* é€𝄞 */ SELECT age FROM adult")).position == 26
    plan = await planned(io, f"{COUNT}; SELECT age FROM adult")
    await plan.run(None, io)
    assert plan.refusal is not None and plan.refusal.position == len(COUNT) + 18
    assert (await planned(io, COUNT)).refusal is None


async def test_where_characters_may_be_bytes_no_place_is_named() -> None:
    io = FakeIO()
    io.status["client_encoding"] = "EUC_JP"
    assert (await refused(io, "SELECT 'é', age FROM adult")).position is None
    assert (await refused(io, "SELECT 'e', age FROM adult")).position == 21


@pytest.mark.parametrize(
    ("sql", "at", "shown"),
    [
        ("/* a comment */ SELECT nope FROM adult", 7, "nope"),
        ("COPY (SELECT  nope FROM adult) TO STDOUT", 7, "nope"),
        ("PREPARE x AS SELECT  nope FROM adult", 7, "nope"),
        ("PREPARE x AS SELECT  nope, nope FROM adult", 13, "nope FROM"),
    ],
)
async def test_postgresqls_own_errors_keep_their_place(sql: str, at: int, shown: str) -> None:
    """The facade was asked about a part of the text, or about a printed version of it."""
    io = FakeIO()
    io.failing["nope"] = "42703"
    io.failing_at = at
    with pytest.raises(FacadeError) as caught:
        await BRAIN.plan(sql, (), io, extended=False)
    assert messages.read_fields(caught.value.raw)["P"] == str(sql.rindex(shown) + 1).encode()


ENGINE = 'At character {} of the predicate, near "{}".'


@pytest.mark.parametrize(
    ("sql", "printed", "at"),
    [
        ("SELECT count(*) FROM adult a WHERE a.age>1 AND  a.age / 2 = 1 GROUP BY sex", "/ 2", 54),
        ("SELECT count(*) FROM adult WHERE age != 1 AND lower(sex) = 'f'", "lower", 46),
        ("SELECT count(*) FILTER (WHERE age::text = '1'), count(*) FROM adult WHERE age > 2", "AS text", None),
        ("SELECT 'text', count(*) FILTER (WHERE age::text = '1') FROM adult WHERE age > 2", "text) =", 43),
        ("SELECT count(*) FROM adult WHERE '1' = sex", "'1'", 33),
        ("SELECT count(*) FROM adult WHERE (age > 1) OR (sex = 'a' AND age > 1)", "sex", 47),
    ],
)
async def test_the_engines_place_in_a_predicate_is_found_in_the_clients_text(
    sql: str, printed: str, at: int | None
) -> None:
    io = FakeIO()

    def refuse(request: dict[str, Any]) -> Any:
        texts = [request["where"], *(item["filter"] for item in request["aggregates"])]
        text = next(text for text in texts if text and printed in text)
        place = text.index(printed)
        raise Refusal("DP003", "no", ENGINE.format(place + 1, " ".join(text[place : place + 40].split())))

    io.upstream.rows_of = refuse
    plan = await planned(io, sql)
    with pytest.raises(Refusal) as caught:
        await plan.run(None, io)
    assert caught.value.position == at


# -- an open transaction block -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", ["COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "BEGIN"])
async def test_transaction_control_may_not_precede_in_an_open_block(control: str) -> None:
    """Refused before a probe of the block could fail and take the client's transaction with it."""
    io = FakeIO()
    io.open_block = True
    io.failing["nope"] = "42703"
    refusal = await refused(io, f"{control}; SELECT nope FROM adult")
    assert (refusal.sqlstate, refusal.hint) == ("DP003", "Send it alone: one statement a message.")
    assert refusal.position == len(control) + 9 and io.described == []
    assert (await answered(io, f"{COUNT}; {control}")).endswith(f"; {control}")
    assert (await answered(io, f"SELECT 1; {COUNT}")).startswith("SELECT 1; ")


async def test_in_an_open_block_what_is_not_ours_passes() -> None:
    io = FakeIO()
    io.open_block, io.shadowed = True, {"adult"}
    assert await BRAIN.plan("COMMIT; SELECT * FROM adult", (), io, extended=False) is None
    assert io.described == []
    io.shadowed = {"visits"}
    text = await answered(io, f"{COUNT}; COMMIT; SELECT * FROM visits")
    assert text.endswith("; COMMIT; SELECT * FROM visits") and len(io.described) == 1


async def test_in_an_open_block_no_execute_after_transaction_control() -> None:
    io = FakeIO()
    await _prepare(io)
    io.open_block = True
    assert (await refused(io, 'COMMIT; EXECUTE "P p"(1)')).position == 8
