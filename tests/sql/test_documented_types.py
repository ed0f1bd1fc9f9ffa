"""docs/reference.md says the type of every argument of the owner's procedures, and of what analysts call."""

from __future__ import annotations

import re
from pathlib import Path

from fix_cluster import Cluster

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference.md"
ARGUMENTS = """
SELECT DISTINCT a.name, format_type(a.type, NULL)
FROM pg_proc p, unnest(p.proargnames, p.proargtypes::oid[]) a(name, type)
WHERE p.pronamespace = 'dp'::regnamespace AND p.prokind = %s AND p.proname ~ %s AND a.type IS NOT NULL
  AND NOT p.proname ~ '_(request|result)$' AND has_function_privilege(%s, p.oid, 'EXECUTE')
"""


def documented() -> dict[str, str]:
    """Argument → type, by the table."""
    rows = re.findall(r"^\| (`[^|]*) \| `([a-z\[\]]+)` \|", REFERENCE.read_text(), re.M)
    return {name: type_ for names, type_ in rows for name in re.findall(r"`\"?([a-z_]+)\"?`", names)}


def test_procedures_take_what_is_documented(cluster: Cluster) -> None:
    types = documented()
    assert len(types) > 30
    with cluster.connect() as root:
        found = root.execute(ARGUMENTS, ["p", "^[a-z]", "dp_admin"]).fetchall()
    assert {(name, type_) for name, type_ in found if name in types and name != "rho"} == {
        (name, types[name]) for name, _ in found if name in types and name != "rho"
    }
    assert len({name for name, _ in found} & set(types)) > 30


def test_analysts_functions_take_what_is_documented(cluster: Cluster) -> None:
    text = REFERENCE.read_text()
    with cluster.connect() as root:
        found = dict(root.execute(ARGUMENTS, ["f", "^dp_(count|sum|avg|median|group_by)$", "dp_analyst"]).fetchall())
    said = text[text.index("Analysts' functions take") :].partition("\n\n")[0]
    for name in ("epsilon", "alpha", "resolution", "max_contribution", "predicate", "joins", "aliases", "fresh"):
        before, _, rest = said.partition(f"`{name}`")
        types = re.findall(r"`(double precision|text|regclass\[\]|name\[\]|boolean)`", before)
        assert types and rest, name
        assert found[name] == types[-1], name
