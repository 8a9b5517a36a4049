"""YAML files written by users. Problems are reported by position, without the text, which may contain secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from cep_common.errors import ConfigError

_NAMED = re.compile(r"\b(alias|anchor|tag|tag handle) (?:'.*'|\".*\")")
"""The parts of PyYAML's messages that quote more than a character: `password: *hunter2` is an alias to YAML."""


def read_yaml(path: Path) -> Any:
    """Return the content of the file.

    Raises:
        ConfigError: With the file and, where it is not YAML, line and column; it quotes nothing of the file.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not YAML: byte {error.start + 1} is not UTF-8") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {_problem(error)}") from None
    except ValueError:
        raise ConfigError(f"{path}: is not YAML: it contains an invalid date or number; put texts in quotes") from None


def _problem(error: yaml.YAMLError) -> str:
    """Return line, column and problem. The text of the error itself is not used since it quotes the line."""
    if isinstance(error, yaml.MarkedYAMLError):
        text = f"{_place(error.problem_mark)}{_without_names(error.problem)}"
        return f"{text} ({_without_names(error.context)}{_since(error.context_mark)})" if error.context else text
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position + 1}: {error.reason}"
    return type(error).__name__


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""


def _since(mark: yaml.Mark | None) -> str:
    return f" that begins in line {mark.line + 1}" if mark is not None else ""


def _without_names(text: str | None) -> str:
    return _NAMED.sub(r"\1", text or "")
