"""The errors an analyst or owner may see: an SQLSTATE, what is wrong, and a HINT saying what to do (design.md §5)."""

from __future__ import annotations

EXHAUSTED = "DP001"
RAW_ACCESS = "DP002"
SHAPE = "DP003"
UNDECLARED = "DP004"
OUT_OF_RANGE = "DP005"
CHANNEL = "DP006"
PRIVILEGE = "42501"


class DPError(Exception):
    """A refusal that is a function of public data and released values only (rule R5).

    `position` is a zero-based character offset into the analyst's expression text, where one is known.
    """

    def __init__(
        self,
        sqlstate: str,
        message: str,
        hint: str | None = None,
        *,
        detail: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.hint = hint
        self.detail = detail
        self.position = position


def refusal_to_json(error: DPError) -> dict[str, str | None]:
    """A refusal as a reply of the channel; dp._refuse raises it."""
    detail = error.detail
    if detail is None and error.position is not None:
        detail = f"At character {error.position + 1} of the expression."
    return {"sqlstate": error.sqlstate, "message": error.message, "detail": detail, "hint": error.hint}
