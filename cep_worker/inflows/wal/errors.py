"""Errors of a log."""

from __future__ import annotations

from cep_common.errors import CepError, InputError


class WalFullError(CepError):
    """Nothing more can be stored now: the log has its maximum size, or the disk is full.

    Sources must wait.
    """

    code = "wal-full"


class BatchTooLargeError(InputError):
    """A batch does not even fit into an empty log: its source must send fewer events at once."""

    def __init__(self, message: str) -> None:
        super().__init__("too-large", message)
