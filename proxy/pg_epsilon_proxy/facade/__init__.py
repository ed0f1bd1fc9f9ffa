"""The facade: a database with the shape of what is published and not one private row (facade-and-channel.md §4, §5)."""

from pg_epsilon_proxy.facade.build import FacadeBusy, ReaderSource, create, prepare, sync
from pg_epsilon_proxy.facade.checks import FacadeRelation, check, held, relations, unsafe_analysts

__all__ = [
    "FacadeBusy",
    "FacadeRelation",
    "ReaderSource",
    "check",
    "create",
    "held",
    "prepare",
    "relations",
    "sync",
    "unsafe_analysts",
]
