"""Times of day as microseconds since midnight, and back."""

from __future__ import annotations

import re

DAY = 86_400_000_000
END = "24:00:00"
_TIME = re.compile(r"(\d\d):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", re.ASCII)


def microseconds(text: str) -> int | None:
    """Of a time, or an interval of less than a day, as PostgreSQL writes it; None for anything else."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part) for part in match.groups()[:3])
    found = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((match[4] or "0").ljust(6, "0"))
    return found if found <= DAY else None


def text(number: int) -> str:
    """A time's text, as PostgreSQL writes it."""
    seconds, rest = divmod(number, 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"
