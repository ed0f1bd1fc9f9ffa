"""Who may import whom, in the extension and in the proxy: the rules of house.md §2, read from the source by `ast`.

Every import counts, also one inside a function or under TYPE_CHECKING: who needs a name knows its owner. Violations of
today are listed in `ALLOWED`, and a listed one that no longer exists fails, so that the list can only get shorter.
`python tests/unit/test_layers.py` prints violations and foreign mentions of the present tree.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"pg_epsilon": ROOT / "extension" / "pg_epsilon", "pg_epsilon_proxy": ROOT / "proxy" / "pg_epsilon_proxy"}
Edge = tuple[str, str]  # importing module, imported module

# Modules in the extension's root → the folder of house.md §2 in which they will stand; others are in it already.
PLACES = {
    "answer": "engine",
    "catalog": "engine",
    "choice": "block",
    "choice_joins": "block",
    "choice_parts": "mechanisms",
    "choice_values": "block",
    "declared": "engine",
    "ledger": "accounting",
    "plan": "engine",
    "refusals": "engine",
}
ROOMS = frozenset({"block", "decide", "explain", "release", "synthesis", "turbo", "workload"})
# The list of kinds of question, and that of other ways to answer.
REGISTRIES = frozenset({"pg_epsilon.engine.tasks", "pg_epsilon.engine.answerers"})
SHARED = frozenset({"errors", "decimals", "_version"})
# What a folder may import besides itself and SHARED; a room: COMMON; the engine: COMMON; entry: everything.
COMMON = frozenset({"mechanisms", "query", "noise", "accounting"})
BELOW: Mapping[str, frozenset[str]] = {
    "accounting": frozenset(),
    "noise": frozenset({"accounting"}),
    "query": frozenset(),
    "mechanisms": frozenset({"query", "noise", "accounting"}),
    "errors": frozenset(),
    "decimals": frozenset(),
    "_version": frozenset(),
}
# Packages of others that one module alone may import; a folder's name means its modules.
OWNERS = {"plpy": "pg_epsilon.entry", "pglast": "pg_epsilon.query.parse", "opendp": "pg_epsilon.noise"}

CHAIN = frozenset({"pg_epsilon.engine.chain", "pg_epsilon.engine.verify"})  # what a copy of the ledger is checked with
# A kind of question → the words that name it in code.
KINDS: Mapping[str, frozenset[str]] = {
    "decide": frozenset({"decide"}),
    "synthesis": frozenset({"synthesis", "synthesize"}),
    "workload": frozenset({"workload"}),
    "turbo": frozenset({"turbo"}),
}
# Where such a word means another thing: the questions that a Turbo view's owner expects, a strategy of the matrix.
HOMONYMS = {"workload": frozenset({"turbo", "mechanisms"})}


def place(module: str) -> str:
    """The folder of an extension's module by house.md §2: "decide", "query", "engine", "entry", …"""
    name = [*module.split("."), ""][1]
    return PLACES.get(name, name)


@cache
def sources() -> dict[str, ast.Module]:
    """Module → its tree, of both packages."""
    found = {}
    for package, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def imports(module: str) -> Iterator[str]:
    """Every dotted name that a module imports: of `from a import b` a.b where that is a module of ours, else a."""
    known = sources()
    for node in ast.walk(known[module]):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []  # of a module in a folder, not of its init
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{name.name}" for name in node.names]
            yield from (name if name in known else base for name in names)


@cache
def edges() -> frozenset[Edge]:
    """(module, imported module), both of ours."""
    known = sources()
    return frozenset((module, name) for module in known for name in imports(module) if name in known and name != module)


def of(package: str) -> list[Edge]:
    return sorted(edge for edge in edges() if edge[0].split(".")[0] == package)


def beyond_a_room() -> Iterator[Edge]:
    """A room imports no other room, never engine or entry."""
    for edge in of("pg_epsilon"):
        own, other = map(place, edge)
        if own in ROOMS and other not in COMMON | SHARED | {own}:
            yield edge


def beyond_the_foundations() -> Iterator[Edge]:
    """query knows no room, no noise, no price; mechanisms, accounting and noise only what is below them."""
    for edge in of("pg_epsilon"):
        own, other = map(place, edge)
        if own in BELOW and other not in BELOW[own] | SHARED | {own}:
            yield edge


def rooms_named() -> Iterator[Edge]:
    """The engine and entry import no room, but for the two lists, which are the only files that name them."""
    for edge in of("pg_epsilon"):
        own, other = map(place, edge)
        if own in ("engine", "entry") and edge[0] not in REGISTRIES and other in ROOMS:
            yield edge


def above_the_engine() -> Iterator[Edge]:
    """Nobody imports entry."""
    return (edge for edge in of("pg_epsilon") if place(edge[1]) == "entry")


def foreign_packages() -> Iterator[Edge]:
    """plpy, pglast and opendp each have one importer."""
    for module in sources():
        tops = {name.split(".")[0] for name in imports(module)}
        for package in sorted(tops & OWNERS.keys()):
            if module != OWNERS[package] and not module.startswith(f"{OWNERS[package]}."):
                yield module, package


def above_the_wire() -> Iterator[Edge]:
    """wire imports nothing above it, and no package of the engine."""
    for edge in of("pg_epsilon_proxy"):
        if edge[0].startswith("pg_epsilon_proxy.wire") and not edge[1].startswith("pg_epsilon_proxy.wire"):
            yield edge


def sql_in_sessions() -> Iterator[Edge]:
    """session knows no SQL: neither the rewriter nor the parser."""
    sql = ("pg_epsilon_proxy.rewrite", "pg_epsilon_proxy.facade", "pg_epsilon.")
    for edge in of("pg_epsilon_proxy"):
        if edge[0].startswith("pg_epsilon_proxy.session") and edge[1].startswith(sql):
            yield edge


def engine_in_the_proxy() -> Iterator[Edge]:
    """The proxy knows the parser, the ledger's chain and the words of refusals: nothing that plans, prices or draws."""
    for edge in of("pg_epsilon_proxy"):
        if edge[1].startswith("pg_epsilon.") and edge[1] not in CHAIN and place(edge[1]) not in {"query"} | SHARED:
            yield edge


def proxy_in_the_engine() -> Iterator[Edge]:
    """The extension does not know the proxy."""
    return (edge for edge in of("pg_epsilon") if edge[1].startswith("pg_epsilon_proxy"))


def circles() -> Iterator[Edge]:
    """No two modules reach each other: the edges inside such a group."""
    after: dict[str, set[str]] = {module: set() for module in sources()}
    for module, other in edges():
        after[module].add(other)

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = after[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    every = {module: reached(module) for module in after}
    return (edge for edge in sorted(edges()) if edge[0] in every[edge[1]])


RULES: dict[str, Callable[[], Iterator[Edge]]] = {
    rule.__name__: rule
    for rule in (
        beyond_a_room,
        beyond_the_foundations,
        rooms_named,
        above_the_engine,
        foreign_packages,
        above_the_wire,
        sql_in_sessions,
        engine_in_the_proxy,
        proxy_in_the_engine,
        circles,
    )
}

# Today's violations, by rule: "importer -> imported", without the package's name where it is the extension.
ALLOWED: Mapping[str, str] = {
    "beyond_a_room": """
        turbo.engine -> catalog
        turbo.engine -> engine.failures
        turbo.engine -> engine.ready
        turbo.owner -> catalog
        turbo.owner -> refusals
        turbo.payer -> catalog
        turbo.payer -> engine.failures
        turbo.payer -> refusals
    """,
    "rooms_named": """
        plan -> choice
    """,
    "sql_in_sessions": """
        pg_epsilon_proxy.session.savepoints -> query.parse
    """,
}
# Foreign mentions of each kind, at most.
MENTIONS = {"decide": 2, "synthesis": 0, "workload": 0, "turbo": 4}


def short(edge: Edge) -> str:
    return " -> ".join(name.removeprefix("pg_epsilon.") for name in edge)


def allowed(rule: str) -> set[str]:
    return {line.strip() for line in ALLOWED.get(rule, "").splitlines() if line.strip()}


@pytest.mark.parametrize("rule", RULES)
def test_nobody_imports_what_is_not_below(rule: str) -> None:
    """A new violation is not excused by an old one."""
    assert sorted({short(edge) for edge in RULES[rule]()} - allowed(rule)) == []


@pytest.mark.parametrize("rule", RULES)
def test_the_list_of_violations_only_gets_shorter(rule: str) -> None:
    """What was mended leaves the list, so that it cannot come back."""
    assert sorted(allowed(rule) - {short(edge) for edge in RULES[rule]()}) == []


def test_every_listed_rule_exists() -> None:
    assert ALLOWED.keys() <= RULES.keys()


def test_every_module_has_a_place() -> None:
    """A new file in the extension's root, or a new folder, says where in house.md §2 it belongs."""
    names = {place(module) for module in sources() if module.startswith("pg_epsilon.")}
    assert names - (ROOMS | COMMON | SHARED | {"engine", "entry"}) == set()
    assert {name for name in PLACES if f"pg_epsilon.{name}" not in sources()} == set()


def named(node: ast.AST) -> str | None:
    """The word by which a node could name a kind: an attribute, a member, a field, a keyword, a whole string."""
    match node:
        case ast.Attribute(attr=word) | ast.Name(id=word) | ast.keyword(arg=word) | ast.Constant(value=str(word)):
            return word
    return None


def mentions() -> dict[str, list[str]]:
    """Kind → the modules that import its folder or name the kind in code, once for each place.

    The folder itself and the two lists may. A name that the module imports from elsewhere is another thing: `decide` of
    accounting.filters.
    """
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for module, tree in sources().items():
        if not module.startswith("pg_epsilon.") or module in REGISTRIES:
            continue
        nodes = list(ast.walk(tree))
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        elsewhere = {name.asname or name.name for node in froms for name in node.names}
        words = [word for node in nodes if (word := named(node)) is not None and word not in elsewhere]
        targets = [place(other) for own, other in edges() if own == module]
        for kind, own in KINDS.items():
            if place(module) != kind and place(module) not in HOMONYMS.get(kind, ()):
                found[kind] += [module.removeprefix("pg_epsilon.")] * (
                    targets.count(kind) + sum(word in own for word in words)
                )
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_named_by_its_folder_and_the_lists(kind: str) -> None:
    """No more foreign mentions than today (the house's measure foreign_mentions; the aim is 0)."""
    assert len(mentions()[kind]) <= MENTIONS[kind], Counter(mentions()[kind])


if __name__ == "__main__":
    for kind, modules in mentions().items():
        print(f"foreign mentions of {kind}: {len(modules)} {dict(Counter(modules))}")
    for name, rule in RULES.items():
        for found in sorted({short(edge) for edge in rule()}):
            print(f"{name}: {found}")
