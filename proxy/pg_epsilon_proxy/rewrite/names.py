"""What the brain knows of the facade: names with the net, views of schema dp, dp_* functions; what names mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# (catalog, schema, name) exactly as written after the lexer's folding; None where not written.
RelationName = tuple[str | None, str | None, str]

# Aggregates of pg_catalog, used where no probe has told better (prokind = 'a').
_AGGREGATES = (
    "any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist "
    "dense_rank every json_agg json_agg_strict json_arrayagg json_object_agg json_object_agg_strict "
    "json_object_agg_unique json_object_agg_unique_strict json_objectagg jsonb_agg jsonb_agg_strict "
    "jsonb_object_agg jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict max median min "
    "mode percent_rank percentile_cont percentile_disc range_agg range_intersect_agg rank regr_avgx regr_avgy "
    "regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp "
    "string_agg sum var_pop var_samp variance xmlagg"
)
BUILTIN_AGGREGATES = frozenset(_AGGREGATES.split(" "))


@dataclass(frozen=True)
class Names:
    """One version of the facade. protected, views: (schema, name); functions: names in schema dp, e.g. dp_count.

    changed: relations that the facade still shows in an older shape than the policy's. public: tables with rows.
    expansions: published views over protected relations, by the text that the facade was built from, in which every
    name has its schema; called: the functions in them. columns: of every published relation, in order. left_out:
    published relations that the facade could not be made with.
    """

    protected: frozenset[tuple[str, str]]
    views: frozenset[tuple[str, str]] = frozenset()
    functions: frozenset[str] = frozenset()
    changed: frozenset[tuple[str, str]] = frozenset()
    public: frozenset[tuple[str, str]] = frozenset()
    expansions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    columns: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    called: frozenset[str] = frozenset()
    left_out: frozenset[tuple[str, str]] = frozenset()

    def last_parts(self) -> frozenset[str]:
        """Unqualified names whose appearance makes a statement worth resolving."""
        return frozenset(name for _, name in self.protected | self.views | self.expansions.keys() | self.left_out)

    def public_parts(self) -> frozenset[str]:
        """Unqualified names that are worth resolving in a statement that names something of ours."""
        return frozenset(name for _, name in self.public)

    def role(self, name: tuple[str, str]) -> str | None:
        """The role of a Relation of this schema and name; None if it is none of ours."""
        roles = {PROTECTED: self.protected, VIEW: self.views, EXPANDED: self.expansions, PUBLIC: self.public}
        return next((role for role, named in roles.items() if name in named), None)

    def is_left_out(self, written: RelationName, found: tuple[str, str] | None) -> bool:
        """Whether a name as written means such a relation. found: what it is in the session; None: nothing."""
        _, schema, name = written
        return found in self.left_out or (
            found is None and any(name == n and schema in (s, None) for s, n in self.left_out)
        )

    def relation(self, schema: str, name: str) -> Relation | None:
        """What the text of a published view means by schema.name."""
        role = self.role((schema, name))
        return None if role is None else Relation(schema, name, role, self.columns.get((schema, name), ()))


PROTECTED, VIEW, EXPANDED, PUBLIC = "protected", "view", "expanded", "public"


@dataclass(frozen=True)
class Relation:
    """A resolved name. columns: published, in order, no system columns.

    role: "protected"; "view" (of schema dp); "expanded" (a published view over protected relations); "public".
    """

    schema: str
    name: str
    role: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """What the names of one statement mean in the client's session. Absent relations are none of ours.

    sets: functions that return sets; names: the facade's, for the texts of published views; path: search_path;
    strings: standard_conforming_strings; encoding: client_encoding; all None where nobody asked.
    """

    relations: Mapping[RelationName, Relation] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()
    aggregates: frozenset[str] = BUILTIN_AGGREGATES
    sets: frozenset[str] = frozenset({"generate_series", "unnest"})
    names: Names = field(default_factory=lambda: Names(frozenset()))
    path: str | None = None
    strings: str | None = None
    encoding: str | None = None

    @property
    def concerned(self) -> bool:
        """Whether the statement names anything that only we can answer."""
        return bool(self.functions) or any(relation.role != PUBLIC for relation in self.relations.values())


class Mentions:
    """Cheap text test: False means that no spelling in the text can name something of ours."""

    def __init__(self, names: Names) -> None:
        # Names inside quoted identifiers keep their case and double their quotes; everything is compared lower-cased.
        self._needles = tuple(sorted(_needles(names.last_parts() | names.functions)))

    def __call__(self, sql: str) -> bool:
        text = sql.lower()
        # A Unicode-escaped identifier (U&"\0061dult") can spell any name: only the parser knows.
        return 'u&"' in text or any(needle in text for needle in self._needles)


def _needles(names: Iterable[str]) -> Iterable[str]:
    return (name.lower().replace('"', '""') for name in names)
