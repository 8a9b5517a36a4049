"""Options of connectors and mappers: texts by name, as plans and artefacts give them, into typed structs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_origin

import msgspec

from cep_common.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)


def option_names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The options that `kind` has, as users write them."""
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


def read_options(kind: type[T], options: Mapping[str, str], where: str) -> T:
    """The options as `kind`; a value that is one of several words may be written in any case.

    ConfigError that says `where` and names the option: unknown, missing, or a wrong value.
    """
    known = option_names(kind)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
            raise ConfigError(f"{where}: unknown option {name}; {advice}")
    values = dict(options)
    for name, words in _words(kind).items():
        if name in values:
            values[name] = _word(values[name], words, f"{where}: {name}")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        raise ConfigError(f"{where}: {f'{name}: ' if name else ''}{text[0].lower()}{text[1:]}") from error


def path_of(uri: str) -> Path:
    """The path that a user wrote, perhaps with `file:` or `file://` in front."""
    return Path(uri.removeprefix("file://").removeprefix("file:"))


def _words(kind: type[msgspec.Struct]) -> dict[str, tuple[str, ...]]:
    """The options that take one of several words, with these."""
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: get_args(field.type) for field in fields if get_origin(field.type) is Literal}


def _word(value: str, words: tuple[str, ...], where: str) -> str:
    for word in words:
        if word.casefold() == value.strip().casefold():
            return word
    raise ConfigError(f"{where}: must be {' or '.join(words)}, not {value!r}")
