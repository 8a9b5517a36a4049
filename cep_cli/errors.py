"""Report errors to the user of the command line: one message on stderr and an exit code, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import click

from cep_common.errors import CepError
from siddhi.errors import SiddhiError

P = ParamSpec("P")

FAILED = 1


class CommandRefusedError(CepError):
    """The manager refused a request.

    Message and `details` are its own, `status` the HTTP status: 0 where there is none.
    """

    code = "refused"

    def __init__(self, message: str, status: int = 0, details: dict[str, Any] | None = None) -> None:
        """Create the error from the manager's answer.

        Args:
            message: What was refused, and why.
            status: The HTTP status, 0 if there was no answer.
            details: The body of the answer, if it was a JSON object.
        """
        super().__init__(message)
        self.status = status
        self.details: dict[str, Any] = details or {}


def with_readable_errors(command: Callable[P, None]) -> Callable[P, None]:
    """`command`, whose known errors end it with their message and exit code."""

    @wraps(command)
    def wrapped(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except CepError as error:
            click.echo(f"cep: {error.message}", err=True)
            sys.exit(error.exit_code)
        except SiddhiError as error:
            click.echo(f"cep: {error}", err=True)
            sys.exit(FAILED)

    return wrapped
