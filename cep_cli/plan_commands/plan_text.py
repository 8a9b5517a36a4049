"""Plan texts from files, with values for `${NAME}` placeholders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from siddhi.language.variables import replace_variables, variables_in

PLAN_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _read_values(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    values = {}
    for one in given:
        name, written, value = one.partition("=")
        if not written and name not in os.environ:
            raise click.BadParameter(f"{name} is not in the environment; write {name}=VALUE")
        values[name] = value if written else os.environ[name]
        if not is_text(values[name]):
            raise click.BadParameter(f"the value of {name} is not text in UTF-8")
    return values


def is_text(value: str) -> bool:
    """Return whether the text is valid UTF-8: Python keeps other bytes of arguments as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


SET_OPTION = click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_read_values,
    help="Value for ${NAME} in the plan; NAME alone takes it from the environment. May be repeated.",
)


def read_plan(file: Path, values: Mapping[str, str]) -> str:
    """Return the text of `file` with every `${NAME}` in `values` replaced.

    Raises UsageError for unused names and for a file that is not text, and OSError if it cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    if needless := values.keys() - variables_in(text):
        raise click.UsageError(f"--set {min(needless)}: there is no ${{{min(needless)}}} in {file}")
    return replace_variables(text, values)
