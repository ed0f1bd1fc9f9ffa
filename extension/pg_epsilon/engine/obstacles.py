"""What keeps the engine from reading a relation, found before anything is paid (composition.md §10.3 a).

Facts of the catalogs, and whether the server of a foreign partition lets itself be connected to: no
row decides them. Each is said with what the administrator types, and is looked for at every
question, so that it counts no longer than it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pg_epsilon.engine import failures, parts
from pg_epsilon.engine.planning import PlanningFailed
from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.plan import Plan
from pg_epsilon.query.schema import written
from pg_epsilon.refusals import quoted

Run = Callable[[str], Any]  # runs a statement that reads no row; undone where it raises
# What connecting to another server raises: of names and rights, passwords, and wrappers. No operator
# that the planner may evaluate on samples of rows raises one of these.
_CONNECTING = ("08", "28", "2F003", "42", "HV")
# row_security_active and the privilege are of the engine's own role, which is the current user. Each
# name is looked up by itself: a plan for any number of names would read the whole of pg_class.
_ANY = (
    "SELECT EXISTS (SELECT FROM (SELECT (SELECT c.oid FROM pg_class c WHERE c.relname = a.name AND c.relnamespace"
    " = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = a.schema)) AS oid"
    " FROM unnest($1, $2) AS a(schema, name) OFFSET 0) AS asked"
    " WHERE row_security_active(oid) OR NOT has_any_column_privilege(oid, 'SELECT')"
    " OR EXISTS (SELECT FROM pg_foreign_table)) AS obstacle,"
    " EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'timescaledb') AS chunks"
)
# Only where there may be one, because every question waits for this. A foreign partition is looked
# for from its end of the inheritance: most databases have none.
_FACTS = (
    "WITH RECURSIVE asked AS (SELECT c.oid, a.schema, a.name FROM unnest($1, $2) AS a(schema, name)"
    " JOIN pg_namespace n ON n.nspname = a.schema"
    " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = a.name),"
    " kin AS (SELECT f.ftrelid AS part, f.ftrelid AS oid FROM pg_foreign_table f"
    " UNION SELECT k.part, i.inhparent FROM kin k JOIN pg_inherits i ON i.inhrelid = k.oid)"
    " SELECT 'filtered' AS fact, schema AS of_schema, name AS of_name, NULL AS schema, NULL AS name,"
    " NULL AS server FROM asked WHERE row_security_active(oid)"
    " UNION ALL SELECT 'closed', schema, name, NULL, NULL, NULL"
    " FROM asked WHERE NOT has_any_column_privilege(oid, 'SELECT')"
    " UNION ALL SELECT 'foreign', a.schema, a.name, n.nspname, p.relname, s.srvname"
    " FROM asked a JOIN kin k ON k.oid = a.oid JOIN pg_class p ON p.oid = k.part"
    " JOIN pg_namespace n ON n.oid = p.relnamespace JOIN pg_foreign_table f ON f.ftrelid = p.oid"
    " JOIN pg_foreign_server s ON s.oid = f.ftserver ORDER BY 1, 2, 3, 4, 5"
)


def check(execute: Execute, run: Run | None, plan: Plan) -> None:
    """DP006 if a relation of a plan's statement cannot be read, DP003 if it may have too many chunks; nothing is
    charged by then.

    run: its error has an `sqlstate`; None: in a dry run, which plans nothing, because planning sees
    rows. Errors: `PlanningFailed` of whatever else beginning the statement raises.
    """
    names: dict[tuple[str, str], None] = {}
    for policy in plan.request.source.relations:
        names[policy.relation.schema, policy.relation.name] = None
        for hop in policy.unit_path:
            if hop.schema is not None and hop.name is not None:
                names[hop.schema, hop.name] = None
    schemas, tables = (list(column) for column in zip(*names, strict=True))
    typed: tuple[list[str], list[Any]] = (["name[]", "name[]"], [schemas, tables])
    looked = execute(_ANY, *typed)[0]
    facts = execute(_FACTS, *typed) if looked["obstacle"] else []
    for row in facts:
        of = written(row["of_schema"], row["of_name"])
        if row["fact"] == "filtered":
            raise _refused(
                f"row-level security of {of} would filter what the engine counts",
                f"ALTER TABLE {of} DISABLE ROW LEVEL SECURITY, or CALL dp.unprotect({quoted(of)})",
            )
        if row["fact"] == "closed":
            raise _refused(f"dp_owner may not read {of}", f"GRANT SELECT ON {of} TO dp_owner")
    if facts and run is not None:
        _check_connects(run, plan, facts[0])
    if looked["chunks"]:
        parts.check(execute, plan)


def _check_connects(run: Run, plan: Plan, row: dict[str, Any]) -> None:
    """Begins the statement, which connects to the servers of whatever parts it would read, and asks
    it for no row. The * keeps the planner from dropping what is read."""
    try:
        run(f"SELECT * FROM ({plan.statement}) AS q LIMIT 0")
    except Exception as error:
        state = getattr(error, "sqlstate", None)
        if not isinstance(state, str) or failures.is_data_independent(error):
            raise
        if not state.startswith(_CONNECTING):
            raise PlanningFailed(state) from None
        part, of = written(row["schema"], row["name"]), written(row["of_schema"], row["of_name"])
        server = written(row["server"])
        raise _refused(
            f"a foreign part of {of}, as {part} on server {server}, cannot be read by dp_owner (SQLSTATE {state})",
            f"CREATE USER MAPPING FOR dp_owner SERVER {server} OPTIONS (...), mends the server's"
            f" options, or types ALTER TABLE {of} DETACH PARTITION {part}",
        ) from None


def _refused(fact: str, typed: str) -> DPError:
    return DPError(
        CHANNEL,
        f"{fact}: nothing was charged",
        f"The administrator types {typed}; then ask again. See dp.check().",
    )
