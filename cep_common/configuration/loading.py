"""Configuration of a process: one YAML file, read once into a frozen struct, overridden by `CEP_` variables.

The structs are the only source of defaults. A key `registry.port` of the manager is overridden by the variable
`CEP_MANAGER__REGISTRY__PORT`. Unknown keys, and values of the wrong type or out of range, are refused by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_type_hints

import msgspec
import yaml

from cep_common.configuration.yaml_files import read_yaml
from cep_common.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)


SetBy = Literal["file", "environment", "driver", "given"]
"""Origin of a key's value.

Stages get their settings from the driver; `given` covers every other way of starting a process without a file.
"""


class Source(msgspec.Struct, frozen=True):
    """The source of a key: `where` is the file, with its whole path, or the environment variable; else empty."""

    origin: SetBy
    where: str


class Loaded(msgspec.Struct, Generic[T], frozen=True):
    """A configuration, and the source of each key that was set, by dotted key."""

    config: T
    sources: dict[str, Source]


def load_config(kind: type[T], path: Path | None, process: str, environment: Mapping[str, str]) -> T:
    """Return the configuration of `process`, see `load_with_sources`."""
    return load_with_sources(kind, path, process, environment).config


def load_with_sources(kind: type[T], path: Path | None, process: str, environment: Mapping[str, str]) -> Loaded[T]:
    """Load the configuration of `process` (`manager`, `worker`, `driver`).

    The environment overrides the file, which overrides `kind`'s defaults. `path` None means that there is no file.

    Raises:
        ConfigError: With the key, and the file or the variable that sets it.
    """
    values = _read_yaml(path) if path is not None else {}
    file = str(path) if path is not None else "the environment"
    # The environment first: it may override a part of a group that the file sets as a whole.
    sources = {".".join(key): Source("environment", variable) for key, _, variable in _overrides(process, environment)}
    if path is not None:
        from_file = Source("file", str(path.absolute()))
        sources |= {key: from_file for key in _set_keys(kind, values, "") if key not in sources}
    _refuse_unknown(kind, values, (), file)
    for key, text, variable in _overrides(process, environment):
        value = text if _field_type(kind, key) is str else _yaml_value(text)
        _refuse_unknown(kind, _nested(key, value), (), variable)
        _set(values, key, value, kind, variable)
    try:
        return Loaded(msgspec.convert(values, kind, strict=False), sources)
    except msgspec.ValidationError as error:
        dotted, message = _readable(error)
        where = _set_by(dotted, sources, file)
        raise ConfigError(f"{where}: {dotted}: {message}" if dotted else f"{where}: {message}") from error


def _set_keys(kind: Any, values: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the dotted keys that `values` sets, including those in groups of keys."""
    hints = get_type_hints(kind)
    for key, value in values.items():
        hint = hints.get(str(key))
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and isinstance(value, dict):
            yield from _set_keys(hint, value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _read_yaml(path: Path) -> dict[str, Any]:
    values = read_yaml(path)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys and values, not a {type(values).__name__}")
    return values


def _overrides(process: str, environment: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield the keys that the environment sets, with text and variable."""
    prefix = f"CEP_{process.upper()}__"
    for name in sorted(environment):
        if name.startswith(prefix):
            yield tuple(part.lower() for part in name[len(prefix) :].split("__")), environment[name], name


def _set(values: dict[str, Any], key: tuple[str, ...], value: Any, kind: type[msgspec.Struct], variable: str) -> None:
    """Set `key` in the nested `values`, as `variable` says.

    A value in place of a group of keys is left as it is, because that is the error to report.
    """
    for depth, part in enumerate(key[:-1], start=1):
        inner = values.setdefault(part, {})
        if not isinstance(inner, dict):
            if _is_group(_field_type(kind, key[:depth])):
                return
            raise ConfigError(f"{variable}: {'.'.join(key)}: {part} is not a group of keys")
        values = inner
    values[key[-1]] = value


def _nested(key: tuple[str, ...], value: Any) -> Any:
    """Return the mapping that sets `key`, and nothing else, to `value`."""
    return {key[0]: _nested(key[1:], value)} if key else value


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _yaml_value(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # PyYAML raises ValueError for an impossible date or number
        return text


def _field_type(kind: type[msgspec.Struct], key: tuple[str, ...]) -> Any:
    current: Any = kind
    for part in key:
        if not _is_group(current):
            return None
        current = get_type_hints(current).get(part)
    return current


def _refuse_unknown(kind: Any, values: Any, path: tuple[str, ...], where: str) -> None:
    if not (_is_group(kind) and isinstance(values, dict)):
        return
    hints = get_type_hints(kind)
    for key, value in values.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            advice = f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(sorted(hints))}"
            raise ConfigError(f"{where}: unknown key {'.'.join((*path, str(key)))}{advice}")
        _refuse_unknown(hints[key], value, (*path, key), where)


def _readable(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the dotted key in msgspec's message, empty for none, and the rest of the message."""
    text, _, path = str(error).partition(" - at `$")
    key = path.rstrip("`").lstrip(".")
    return (key, f"{text[0].lower()}{text[1:]}") if key else ("", text)


def _set_by(key: str, sources: Mapping[str, Source], file: str) -> str:
    """Return the variable, or else the file, that sets the dotted `key` or a group that contains it.

    For a group that is wrong as a whole, return everything that sets a part of it.
    """
    above = [place for place in sources if key == place or key.startswith((f"{place}.", f"{place}["))]
    places = above or [place for place in sources if place.startswith(f"{key}.")]
    variables = [place for place in places if sources[place].origin == "environment"]
    if above:
        return sources[max(variables, key=len)].where if variables else file
    found = dict.fromkeys(sources[place].where if place in variables else file for place in places)
    return " and ".join(found) or file
