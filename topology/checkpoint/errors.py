"""Errors of checkpoints.

CheckpointError
├── StoreUnreachableError       the place where checkpoints are kept does not answer, or refuses
└── CheckpointUnreadableError   what is kept there is torn, damaged, missing, or of another version
"""

from __future__ import annotations

from cep_common.errors import CepError


class CheckpointError(CepError):
    """A checkpoint that cannot be taken, stored or read."""

    code = "checkpoint"


class StoreUnreachableError(CheckpointError):
    """The store at `checkpoint.location` cannot be used now."""

    code = "checkpoint-store"


class CheckpointUnreadableError(CheckpointError):
    """A checkpoint that cannot be used, now or later; `reason_code` is stable: `missing`, `torn`, `foreign` (it is no
    checkpoint, or one of another plan), `version`, `damaged` (a piece is not what it was)."""

    code = "checkpoint-unreadable"

    def __init__(self, reason_code: str, message: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code
