"""The one line that says how an answer came about (composition.md §9: public facts only). One place builds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_OFF = frozenset({"off", "false", "no", "0", "f", "n"})
_NULL = "x / 0, and a root, logarithm or power outside its domain, of released values is NULL (dp.division = null)"
_ERROR = "x / 0, or a root, logarithm or power outside its domain, of released values fails, paid (dp.division = error)"
_DIVISIONS = {"": _NULL, "null": _NULL, "error": _ERROR}
_ON = frozenset({"on", "true", "yes", "1", "t", "y"})


def wanted(setting: str | None, application_name: str | None) -> bool:
    """dp.notices, if set; otherwise on for psql alone (programs do not expect notices)."""
    if setting is None or setting.strip() == "":
        return application_name == "psql"
    return setting.strip().lower() not in _OFF


def unknown(setting: str | None) -> bool:
    """Whether dp.notices is neither unset nor a boolean."""
    return setting is not None and setting.strip().lower() not in _OFF | _ON | {""}


def notice_text(notice: Mapping[str, Any]) -> str:
    """E.g. `dp: laplace, epsilon 0.1 charged, ±30 at 95%, 0.9 of 1 left, as of 2026-11-21 02:00:00+00`."""
    if notice.get("text"):
        # The engine's own words, which a direct caller of dp_count sees too.
        return str(notice["text"])
    parts = [_path(notice), _charge(notice), margin_text(notice), _left(notice), _as_of(notice)]
    return "dp: " + ", ".join(part for part in parts if part)


def unread_text(relations: Sequence[str]) -> str:
    """What is said of relations that a statement names, though by its own text it reads no row of them."""
    return (
        f"dp: no row of {', '.join(relations)} is read, by LIMIT 0 or a constant condition: answered, nothing charged"
    )


def published_text(schema: str, name: str) -> str:
    """What is said, once a session, of a published release that a statement reads (docs/release.md)."""
    return (
        f"dp: {schema}.{name} is a release with noise, of which rows of little weight are left out: no bound applies "
        "to sums over it, nor to anything else that is computed from it; the same question in plain SQL over the "
        "relation that it was made from has a bar, and is free (SELECT * FROM dp.families)"
    )


def undefined_text(count: int) -> str:
    """What is said at the end of a statement in which `count` values were made NULL (composition.md §14.15)."""
    words = "1 value is NULL, because its" if count == 1 else f"{count} values are NULL, because their"
    return (
        f"dp: {words} computation from released values has no result: x / 0, or a root, logarithm or power outside "
        "its domain; SET dp.division = 'error' makes it an error"
    )


def odd_division(setting: str | None) -> bool:
    """Whether dp.division is neither unset nor one of its values."""
    return setting is not None and setting.strip().lower() not in _DIVISIONS


def division_fact(setting: str | None) -> str:
    """What EXPLAIN says of a statement that divides released values, or takes roots, logarithms or powers of them."""
    return _DIVISIONS[(setting or "").strip().lower()]


def warnings_of(notice: Mapping[str, Any]) -> list[str]:
    """Flags from released values or public facts, e.g. that groups may be missing. The engine's own text has them."""
    if notice.get("text"):
        return []
    return [str(item) for item in notice.get("warnings") or ()]


def margin_text(notice: Mapping[str, Any]) -> str:
    """`±30 at 95%`, `±unknown`, or nothing."""
    margin = notice.get("margin")
    if margin is None:
        return ""
    confidence = notice.get("confidence")
    return f"±{margin}" + (f" at {_percent(confidence)}" if confidence is not None else "")


def amount_text(amount: Any) -> str:
    """`epsilon 0.1`, `rho 0.02`, with delta if there is one; `nothing` for 0. Other values as they are."""
    if not isinstance(amount, Mapping):
        return str(amount) if amount is not None else "nothing"
    parts = [f"{kind} {value}" for kind, value in amount.items() if not _is_zero(value)]
    return ", ".join(parts) if parts else "nothing"


def _path(notice: Mapping[str, Any]) -> str:
    words = [str(notice[key]) for key in ("path", "mechanism") if notice.get(key)]
    return " ".join(dict.fromkeys(words))


def _charge(notice: Mapping[str, Any]) -> str:
    return f"{amount_text(notice.get('charge'))} charged" if "charge" in notice else ""


def _left(notice: Mapping[str, Any]) -> str:
    left, cap = notice.get("left"), notice.get("cap")
    if left is None:
        return ""
    shown = amount_text(left)
    return f"{shown} of {amount_text(cap)} left" if cap is not None else f"{shown} left"


def _as_of(notice: Mapping[str, Any]) -> str:
    return f"as of {notice['as_of']}" if notice.get("as_of") else ""


def _percent(confidence: Any) -> str:
    return f"{round(float(confidence) * 100, 6):g}%"


def _is_zero(value: Any) -> bool:
    try:
        return value is None or float(value) == 0
    except (TypeError, ValueError):
        return False
