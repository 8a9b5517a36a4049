"""Errors of checkpoints.

CheckpointError
├── StoreUnreachableError       the place where checkpoints are kept does not answer, or refuses
└── CheckpointUnreadableError   what is kept there is torn, damaged, missing, or of another version
"""

from __future__ import annotations

from cep_common.errors import CepError

OTHER_VERSION = "version"


def decide(plan: str) -> str:
    """Describe what users can do about state that cannot be read."""
    return (
        f"or say what the plan starts from: `cep restart {plan} --from SAVEPOINT`, or `--from none` for empty state. "
        "Accepted events wait until then"
    )


class CheckpointError(CepError):
    """A checkpoint cannot be taken, stored or read."""

    code = "checkpoint"


class StoreUnreachableError(CheckpointError):
    """The store at `checkpoint.location` cannot be used now."""

    code = "checkpoint-store"


class CheckpointUnreadableError(CheckpointError):
    """A checkpoint is unusable. Retrying is useless.

    `reason_code` is stable: `missing`, `torn`, `foreign` (no checkpoint, or one of another plan), `damaged` (a piece
    has changed), or OTHER_VERSION (this version cannot read the format of the file or of its states).
    """

    code = "checkpoint-unreadable"

    def __init__(self, reason_code: str, message: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code
