"""Epochs of the sparse vector (turbo.md §4.2): what is stored of one, and the two calls that move it."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from pg_epsilon.noise import NoiseSource


class SparseVector(NamedTuple):
    """One key's sparse vector: UNINIT if `threshold` is None, else ACTIVE and paid.

    epoch: how many were opened, this one included. epsilon: of the open epoch (3 epsilon was paid). threshold: the
    NOISY threshold, in lattice steps: secret, for the owner's eyes only, and in no dump. The privacy proof integrates
    over its noise, so whoever reads it voids the epoch.
    """

    epoch: int = 0
    epsilon: Decimal = Decimal(0)
    threshold: int | None = None

    @property
    def active(self) -> bool:
        return self.threshold is not None

    def closed(self) -> SparseVector:
        """After a FAIL, a restore or a changed partition: UNINIT, the threshold erased."""
        return SparseVector(self.epoch)


def label(key: str, epoch: int) -> str:
    """What an audit knows an epoch by; public."""
    return f"sparse vector {key} epoch {epoch}"


def opened(
    before: SparseVector, key: str, threshold: int, *, sensitivity: int, epsilon: Decimal, noise: NoiseSource
) -> SparseVector:
    """A new epoch. 3 epsilon must have been PAID: the payment comes first (E-5). threshold: floor(alpha n~ / 2)."""
    epoch = before.epoch + 1
    noisy = noise.sparse_start(threshold, sensitivity=sensitivity, epsilon=epsilon, label=label(key, epoch))
    return SparseVector(epoch, epsilon, noisy)


def passes(state: SparseVector, key: str, error: int, *, sensitivity: int, noise: NoiseSource) -> bool:
    """PASS or FAIL of one error |true - estimate|. After a FAIL the caller stores `state.closed()`, come what may."""
    if state.threshold is None:
        raise ValueError("a sparse vector that was not paid for")
    return noise.sparse_test(
        error, state.threshold, sensitivity=sensitivity, epsilon=state.epsilon, label=label(key, state.epoch)
    )
