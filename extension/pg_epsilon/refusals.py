"""What the engine says when it cannot answer: public names and amounts only (composition.md §9, §14.11)."""

from __future__ import annotations

from collections.abc import Mapping

from pg_epsilon.accounting.filters import Remaining
from pg_epsilon.decimals import plain
from pg_epsilon.errors import CHANNEL, EXHAUSTED, PRIVILEGE, DPError
from pg_epsilon.query.policy import Policy

PLANNER = "dp_planner"  # the system role that pays for what everybody uses


def not_published(name: str) -> DPError:
    return DPError(PRIVILEGE, f"{name} is not a published relation", "dp.published lists what can be asked about.")


def locked() -> DPError:
    """Our own wait for a lock ended: it says nothing about a row."""
    return DPError(
        CHANNEL,
        "another transaction has locked what the call needs",
        "Commit policy changes first; a session that changed or locked them and then asks waits for itself.",
    )


def closed() -> DPError:
    """A read failed next to rows once (composition.md §10.3)."""
    return DPError(
        CHANNEL,
        "this form of question is closed after a failure",
        "The administrator finds the cause and calls dp.reopen_shape(shape); dp.check() lists closed shapes.",
    )


def check_not_frozen(policy: Policy) -> None:
    """DP006 where a charge could not be entered: what was released before stays readable (composition.md §12)."""
    if policy.dataset.frozen:
        raise DPError(
            CHANNEL,
            f"the accounts of dataset {policy.dataset.name} are frozen: this is a restored or cloned ledger",
            "The administrator calls dp.confirm_ledger(dataset, add_epsilon => what was spent since the copy).",
        )


def repriced() -> DPError:
    """DP006: what was charged under this request's id is not what its question costs now; nothing is drawn for it."""
    return DPError(
        CHANNEL,
        "the privacy policy changed while the question was being answered",
        "Ask it again; it will be charged anew.",
    )


def no_allotment(dataset: str, who: str | None = None) -> DPError:
    """42501: the asker, or the planner, may spend nothing of a dataset."""
    if who == PLANNER:
        return DPError(
            PRIVILEGE,
            f"{PLANNER}, which pays for what everybody uses, has no allotment in dataset {dataset}",
            f"CALL dp.allot('{PLANNER}', '{dataset}', epsilon => ...)",
        )
    return DPError(
        PRIVILEGE,
        f"you have no allotment in dataset {dataset}",
        "The administrator calls dp.allot(role, dataset, epsilon => ...).",
    )


def exhausted(dataset: str, role: str, charge: Mapping[str, str], left: Remaining) -> DPError:
    """DP001: what was asked does not fit into the dataset's cap (role '') or the role's allotment."""
    own = f"the allotment of {PLANNER} in" if role == PLANNER else "your allotment in"
    whose = own if role else "the budget of"
    asked = ", ".join(f"{name} {value}" for name, value in charge.items())
    return DPError(
        EXHAUSTED,
        f"{whose} dataset {dataset} does not allow {asked} more",
        f"epsilon {plain(left.epsilon)} is left. Ask with less, or repeat a question that was answered before:"
        " that is free.",
    )
