"""What `make sql` makes of a row of sql/60_public/functions.toml, and which rows it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pglast
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import build_sql  # noqa: E402
import sql_functions  # noqa: E402

ROW: dict[str, Any] = {
    "name": "dp_told",
    "parameters": ["relation  regclass", "by text", "epsilon double precision DEFAULT NULL"],
    "request": "'from', dp.relation_ref(relation), 'told', by",
    "returns": ["value text", "counted bigint"],
    "comment": "What somebody's\n  columns hold.",
}


def made(*rows: dict[str, Any]) -> str:
    return sql_functions.script([sql_functions.Function.of(row) for row in rows])


def test_three_functions_of_a_row() -> None:
    expected = """
CREATE FUNCTION dp.dp_told_result(answer jsonb) RETURNS TABLE (value text, counted bigint)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (r ->> 0)::text, (r ->> 1)::bigint
  FROM jsonb_array_elements(answer #> '{rows}') WITH ORDINALITY AS rows(r, n) ORDER BY n
$$;
COMMENT ON FUNCTION dp.dp_told_result(jsonb) IS 'The rows of the answer to a dp_told request.';
REVOKE ALL ON FUNCTION dp.dp_told_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_told_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_told_request(relation regclass, by text, epsilon double precision DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_told', 'from', dp.relation_ref(relation), 'told', by, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_told_request(regclass, text, double precision) IS 'The request of a dp_told call.';
REVOKE ALL ON FUNCTION dp.dp_told_request(regclass, text, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_told_request(regclass, text, double precision) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_told(relation regclass, by text, epsilon double precision DEFAULT NULL) RETURNS TABLE (value text, counted bigint)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.* FROM dp.dp_told_result(dp.dp_query(dp.dp_told_request(relation, by, epsilon))) r
$$;
COMMENT ON FUNCTION dp.dp_told(regclass, text, double precision) IS 'What somebody''s columns hold.';
REVOKE ALL ON FUNCTION dp.dp_told(regclass, text, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_told(regclass, text, double precision) TO dp_analyst, dp_gateway;"""  # noqa: E501
    assert made(ROW) == expected


def test_a_single_value_and_rows_elsewhere() -> None:
    value = made(ROW | {"returns": "numeric"})
    assert "RETURNS numeric" in value
    assert "SELECT (answer #>> '{rows,0,0}')::numeric" in value
    assert "SELECT dp.dp_told_result(dp.dp_query(" in value
    assert "jsonb_array_elements(answer #> '{told,rows}')" in made(ROW | {"rows": "told,rows"})


def test_numbers_alone_have_their_digits_pinned() -> None:
    assert "extra_float_digits" in made(ROW | {"parameters": ["shares real[]"]})
    assert "extra_float_digits" not in made(ROW | {"parameters": ["share numeric", "words text DEFAULT ' DEFAULT x'"]})


def test_two_rows_of_one_name() -> None:
    text = made(ROW, ROW | {"parameters": ["relation regclass", "by text[]"]})
    heads = [line.partition(" RETURNS")[0] for line in text.splitlines() if line.startswith("CREATE")]
    assert heads == [
        "CREATE FUNCTION dp.dp_told_result(answer jsonb)",
        *(
            f"CREATE FUNCTION dp.dp_told{part}({parameters})"
            for parameters in (
                "relation regclass, by text, epsilon double precision DEFAULT NULL",
                "relation regclass, by text[]",
            )
            for part in ("_request", "")
        ),
    ]
    assert len(pglast.parse_sql(text)) == 4 * len(heads)


TOML = """
[[function]]
name = "dp_told"
parameters = ["a int"]
request = "'a', a"
returns = {}
comment = "x"
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TOML.format('["v text"]') + TOML.format('["v text"]'), "twice: dp_told(int)"),
        (
            TOML.format('["v text"]') + TOML.format('"text"').replace("a int", "a text"),
            "return the same",
        ),
        (TOML.format("[]"), "returns"),
        (TOML.format("7"), "dp_told: returns"),
        (TOML.format('["v"]'), "'v' is no"),
        (TOML.format('"text"\nrow = "x"'), "dp_told: row"),
        (TOML.format('"text"\nrows = "x}\'"'), "rows"),
        (TOML.format('"text"').replace("comment", "# comment"), "dp_told: comment"),
        (TOML.format('"text"').replace('"x"', '" "'), "comment"),
        (TOML.format('"text"').replace("dp_told", "told"), "told: name"),
        (TOML.format('"text"').replace('["a int"]', '["A int"]'), "'A int' is no"),
    ],
)
def test_a_row_that_says_nothing_is_refused(text: str, says: str) -> None:
    with pytest.raises(sql_functions.WrongRow, match=says.replace("(", r"\(").replace(")", r"\)")):
        sql_functions.table(text)


def test_a_bad_table_ends_make_sql_with_its_name(tmp_path: Path) -> None:
    for text in ("[[function]\n", TOML.format("[]")):
        table = tmp_path / "functions.toml"
        table.write_text(text)
        with pytest.raises(SystemExit, match=r"make sql: .*functions\.toml: "):
            build_sql.text_of(table)


def test_the_table_of_the_product() -> None:
    """In the script, between functions by hand and views; each row with a sentence for psql's \\df+."""
    functions = sql_functions.read(ROOT / "sql")
    assert functions
    assert all(one.comment.endswith(".") and len(one.comment) > 40 for one in functions)
    create = next(text for name, text in build_sql.scripts(ROOT).items() if name.count("--") == 1)
    for one in functions:
        alike = [other for other in functions if other.name == one.name]
        assert create.count(f"CREATE FUNCTION dp.{one.name}(") == len(alike)
    assert create.index("-- 60_public/functions.toml") < create.index("-- 70_views/")
    assert create.index("-- 60_public/95_gateway.sql") < create.index("-- 60_public/functions.toml")


def test_script_is_read_in_databases_of_every_encoding() -> None:
    """CREATE EXTENSION reads the bytes in the database's encoding: three of one letter are no text in EUC_JP."""
    for name, text in build_sql.scripts(ROOT).items():
        beyond = sorted({letter for letter in text if ord(letter) > 0xFF})
        assert not beyond, f"{name}: {beyond}"
