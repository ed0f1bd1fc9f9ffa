"""Members of a request document: their JSON types, checked; predicates with the place of a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query.expression import Expression, Fold, Scope, compile_predicate

_HINT = "Use dp_count, dp_group_by, or plain SQL through the proxy."


def mapping(value: Any, member: str, hint: str = _HINT) -> Mapping[str, Any]:
    """A member that is an object. DP003 with the hint."""
    if not isinstance(value, dict):
        raise DPError(SHAPE, f"request member {member} is not an object", hint)
    return value


def texts(value: Any, member: str) -> Mapping[str, Any]:
    """A member that is an object of texts, nulls among them."""
    for name, item in mapping(value, member).items():
        text(item, f"{member}.{name:.60}")
    return mapping(value, member)


def items(value: Any, member: str, hint: str = _HINT) -> list[Any]:
    """A member that is a list; none is empty. DP003 with the hint."""
    if value is not None and not isinstance(value, list):
        raise DPError(SHAPE, f"request member {member} is not a list", hint)
    return value or []


def text(value: Any, member: str) -> str | None:
    """A member that is a text or absent."""
    if value is not None and not isinstance(value, str):
        raise DPError(SHAPE, f"request member {member} is not a text", _HINT)
    return value


def predicate(source: str | None, scope: Scope, fold: Fold) -> str | None:
    """Validated SQL of a predicate, if there is one."""
    return None if source is None else condition(source, scope, fold).sql


def condition(source: str, scope: Scope, fold: Fold) -> Expression:
    """A predicate, validated; a refusal shows where in the asker's own text it stands."""
    try:
        return compile_predicate(source, scope, fold)
    except DPError as error:
        if error.position is not None and error.detail is None:
            near = " ".join(source[error.position : error.position + 40].split())
            error.detail = f'At character {error.position + 1} of the predicate, near "{near}".'
        raise
