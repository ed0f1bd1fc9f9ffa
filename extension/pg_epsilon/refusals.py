"""What the engine says when it cannot answer: public names and amounts only (composition.md §9, §14.11)."""

from __future__ import annotations

from collections.abc import Mapping

from pg_epsilon.accounting.filters import Remaining
from pg_epsilon.decimals import plain
from pg_epsilon.engine.incarnation import data_directory
from pg_epsilon.engine.ready import server_facts
from pg_epsilon.errors import CHANNEL, EXHAUSTED, PRIVILEGE, UNDECLARED, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.query.policy import Policy

PLANNER = "dp_planner"  # the system role that pays for what everybody uses


def quoted(name: str) -> str:
    """A name as the literal that an administrator types."""
    return "'" + name.replace("'", "''") + "'"


def not_published(name: str) -> DPError:
    return DPError(PRIVILEGE, f"{name} is not a published relation", "dp.published lists what can be asked about.")


def check_published(policy: Policy) -> None:
    """42501 for a relation that is not published, DP006 for one whose rows have a second owner."""
    if not policy.published:
        raise not_published(policy.relation.qualified)
    if policy.linked and not policy.has_user_units:
        raise DPError(
            CHANNEL,
            f"{policy.relation.qualified} was joined by a foreign key to another protected relation of its dataset",
            "Rows of joined relations need a dataset whose unit is a user: see dp.check().",
        )


def half_declared(relation: str, dataset: str, shown: bool, problem: str, hint: str) -> DPError:
    """DP004: whoever else a row is about would have no guarantee. Names what an analyst may see published, no more."""
    return DPError(
        UNDECLARED,
        f"{relation} is declared by halves: {problem}"
        if shown
        else f"{relation} is declared by halves: a foreign key leads to units through which it is not protected",
        f"Its owner decides: {hint if shown else 'SELECT * FROM dp.check() names the key, and the call that mends it'}."
        f" Dataset {quoted(dataset)} is strict.",
    )


def locked() -> DPError:
    """Our own wait for a lock ended: it says nothing about a row."""
    return DPError(
        CHANNEL,
        "another transaction has locked what the call needs",
        "Commit policy changes first; a session that changed or locked them and then asks waits for itself. What was"
        " paid is owed: the same question is answered for nothing.",
    )


def check_not_frozen(execute: Execute, dataset: str) -> None:
    """DP006 where nothing may be paid or drawn: what was released before stays readable (composition.md §10.3 d, §12).

    Read at every charge, under the account's lock, and at every draw, without it; kept nowhere: a freeze counts at
    once. Of a ledger that is elsewhere, what differs is named, old and now.
    """
    inode, ctime, _ = data_directory()
    server = server_facts(execute)
    place = [inode, ctime, server["system"], server["database"]]
    if execute(_FREE, ["text", "numeric", "bigint", "bigint", "oid"], [dataset, *place])[0]["free"]:
        return
    reasons = execute(_REASONS, ["text"], [dataset])
    found = {row["reason"]: (row["place"], row["arguments"]) for row in reasons}
    for reason, (why, hint) in _FREEZES.items():
        if reason in found:
            place, arguments = found[reason]
            told = f"dataset {dataset} is frozen: {why}{f' ({place})' if place else ''}"
            raise DPError(CHANNEL, told, hint.format(quoted(dataset), arguments or _ADD))


# True only where dp._freeze_reasons has no row, which says why, but takes several times as long: nothing is frozen, and
# the ledger is where it was confirmed. The timeline is that of the log, as there.
_FREE = """
SELECT NOT EXISTS (SELECT FROM dp.freeze f WHERE f.dataset = $1) AND EXISTS (
  SELECT FROM dp.dataset d JOIN dp.incarnation i ON i.id = d.incarnation
  WHERE d.name = $1 AND i.system_identifier = $4 AND i.database_oid = $5
    AND i.timeline = CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN
      ('x' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8))::bit(32)::integer END
    AND i.inode IS NOT DISTINCT FROM $2 AND i.ctime IS NOT DISTINCT FROM $3) AS free
"""
_REASONS = "SELECT reason, detail ->> 'elsewhere' AS place, detail ->> 'add' AS arguments FROM dp._freeze_reasons($1)"
_ADD = "add_epsilon => what was spent since the copy"
# Why a dataset is frozen → what is said of it and who does what; what dp.reopen does not lift comes first.
_FREEZES = {
    "incarnation": (
        "its ledger was restored, copied or promoted",
        "The administrator types CALL dp.confirm_ledger({}, add_epsilon => what the original may have spent that this"
        " copy lacks).",
    ),
    "witness": (
        "this ledger lacks charges that a proxy has seen",
        "The administrator types CALL dp.confirm_ledger({}, {}): what the proxy saw and this copy lacks.",
    ),
    "failures": (
        "questions failed in a way that nobody foresaw",
        "The administrator finds the places in the server's log, then types CALL dp.reopen({}).",
    ),
    "owner": ("its owner stopped it", "The administrator types CALL dp.reopen({})."),
}


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
            f"CALL dp.allot('{PLANNER}', {quoted(dataset)}, epsilon => ...)",
        )
    return DPError(
        PRIVILEGE,
        f"you have no allotment in dataset {dataset}",
        "The administrator calls dp.allot(role, dataset, epsilon => ...).",
    )


def exhausted(
    dataset: str, role: str, charge: Mapping[str, str], left: Remaining, renews: str | None = None
) -> DPError:
    """DP001: what was asked does not fit into the dataset's cap (role '') or the role's allotment, which may renew."""
    own = f"the allotment of {PLANNER} in" if role == PLANNER else "your allotment in"
    whose = own if role else "the budget of"
    asked = ", ".join(f"{name} {value}" for name, value in charge.items())
    rest = f"epsilon {plain(left.epsilon)}" + (f" and delta {plain(left.delta)} are" if "delta" in charge else " is")
    return DPError(
        EXHAUSTED,
        f"{whose} dataset {dataset} does not allow {asked} more",
        f"{rest} left{f' until it renews at {renews}' if renews else ''}."
        " Ask with less, or repeat a question that was answered before: that is free.",
    )
