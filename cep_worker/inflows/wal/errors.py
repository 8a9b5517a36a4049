"""Errors of a log."""

from __future__ import annotations

from cep_common.errors import CepError, InputError


class WalFullError(CepError):
    """Nothing more can be stored now: the bound is reached, or the disk is full.

    Sources must wait.
    """

    code = "wal-full"


class BatchTooLargeError(InputError):
    """A batch will never fit, however empty the log is: its source must send fewer events at once."""

    def __init__(self, message: str) -> None:
        super().__init__("too-large", message)
