"""Map epochs to the deployments of a plan's name. Pure.

Example:
    epochs       5     6     7  │  8     9  │  10
    deployments  first          │  second   │  present
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter


class DeploymentEpochs:
    """The deployments of one name, oldest first, each identified by the time at which its plan was first deployed.

    Each deployment continues the epochs of the previous one. A plan from a database that counts from the start again
    must get a later epoch first, see `least_epoch`.
    """

    def __init__(self, prepared: Iterable[tuple[int, int]], epoch: int, deployed_ms: int) -> None:
        """Start from the epochs found on disk, each with the time at which its plan was deployed (0: unknown).

        The present plan has `epoch` and `deployed_ms`.
        """
        self._first: list[tuple[int, int]] = []
        self._newest = -1
        for known, known_ms in sorted(prepared):
            if known_ms:
                self.follow(known, known_ms)
            self._newest = known
        self.follow(epoch, deployed_ms)

    def follow(self, epoch: int, deployed_ms: int) -> None:
        """Record that the plan deployed at `deployed_ms` has `epoch`.

        An epoch that is not the newest is ignored: if epochs were counted from the start again, its owner is unknown.
        """
        if not self._first:
            self._first.append((0, deployed_ms))
        elif epoch > self._newest and deployed_ms != self._first[-1][1]:
            self._first.append((self._newest + 1, deployed_ms))
        self._newest = max(self._newest, epoch)

    def least_epoch(self, epoch: int, deployed_ms: int) -> int:
        """Return 0 if the plan deployed at `deployed_ms` may use `epoch`, else the least epoch that it may use.

        An epoch may not be used if a database that was replaced has assigned it before.
        """
        owner_ms = self._first[-1][1]
        if epoch <= self._newest and 0 not in (deployed_ms, owner_ms) and deployed_ms != owner_ms:
            return self._newest + 1
        return self._newest if epoch < self._newest else 0

    def speaks_of(self, deployed_ms: int, epoch: int) -> bool:
        """Return whether a report about the plan deployed at `deployed_ms` (0: any) applies to this epoch."""
        return deployed_ms in (0, self.deployed_ms(epoch)) or not self.deployed_ms(epoch)

    def __len__(self) -> int:
        return len(self._first)

    def of(self, epoch: int) -> int:
        """Return the index of the deployment that has the epoch."""
        return bisect_right(self._first, epoch, key=itemgetter(0)) - 1

    def deployed_ms(self, epoch: int) -> int:
        """When the plan that has the epoch was deployed."""
        return self._first[self.of(epoch)][1]
