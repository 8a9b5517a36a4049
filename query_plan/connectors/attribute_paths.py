"""`@attributes` of a source: the path to the value of each attribute. Each mapper defines its own kind of path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cep_common.errors import ConfigError

PATHS = "attributes"
"""The prefix of the options made of `@attributes`."""
_TRANSPORT = re.compile(r"\s*trp:", re.IGNORECASE)


def split_options(options: Mapping[str, str], prefix: str) -> tuple[dict[str, str], dict[str, str]]:
    """Split off the options `<prefix>` and `<prefix>.<name>`, by name (or number), from the others."""
    chosen = {name.partition(".")[2]: text for name, text in options.items() if name.partition(".")[0] == prefix}
    return chosen, {name: text for name, text in options.items() if name.partition(".")[0] != prefix}


def split_paths(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the mapper options into the paths of `@attributes`, by attribute or number, and the others."""
    return split_options(options, PATHS)


def by_attribute(given: Mapping[str, str], names: Sequence[str], where: str) -> dict[str, str]:
    """Return the paths of `@attributes` for the attributes `names`.

    Paths without names follow the order of the attributes.

    Raises:
        ConfigError: If an attribute is unknown or left out.
    """
    if all(name == "" or name.isdigit() for name in given):
        if len(given) != len(names):
            raise ConfigError(f"{where}: @attributes has {len(given)} paths, the stream {len(names)} attributes")
        return dict(zip(names, given.values(), strict=True))
    if unknown := [name for name in given if name not in names]:
        raise ConfigError(f"{where}: @attributes: no such attribute: {', '.join(unknown)}")
    if missing := [name for name in names if name not in given]:
        raise ConfigError(f"{where}: @attributes: no path for {', '.join(missing)}")
    return {name: given[name] for name in names}


def transport_property(path: str) -> str | None:
    """Return the name of the transport property that `path` refers to; None when it refers to the body."""
    found = _TRANSPORT.match(path)
    return path[found.end() :].strip() if found is not None else None


def refuse_transport(what: str, path: str, where: str) -> None:
    """Raise ConfigError when `path` refers to a transport property."""
    if transport_property(path) is not None:
        raise ConfigError(f"{where}: {what}: only sources http and kafka have transport properties ({path.strip()})")
