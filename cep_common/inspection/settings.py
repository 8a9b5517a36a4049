"""The effective configuration of a process: each key with its value, its default, and where it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cep_common.configuration.loading import SetBy, Source
from cep_common.configuration.redaction import redact_setting
from cep_common.protocol.inspection import Origin, Setting


def settings_of(
    config: msgspec.Struct, sources: Mapping[str, Source] | None = None, otherwise: SetBy = "given"
) -> tuple[Setting, ...]:
    """Return every key of `config`, with secrets covered.

    `sources` has the sources of the keys that were set; other keys whose value is not the default have the source
    `otherwise`. All keys must have defaults.
    """
    defaults = dict(_leaves(type(config)(), ""))
    return tuple(
        _setting(key, value, defaults[key], _source(key, sources or {}, otherwise))
        for key, value in _leaves(config, "")
    )


def _leaves(config: msgspec.Struct, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys in order. Groups of keys are traversed; mappings and lists are values."""
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _source(key: str, sources: Mapping[str, Source], otherwise: SetBy) -> Source:
    """Return the source of the key itself, of a key within it, or of a group that contains it."""
    for known, source in sources.items():
        if known == key or known.startswith(f"{key}.") or key.startswith(f"{known}."):
            return source
    return Source(otherwise, "")


def _setting(key: str, value: Any, default: Any, source: Source) -> Setting:
    same = value == default
    origin: Origin = "default" if same and source.origin in ("given", "driver") else source.origin
    return Setting(key, _json(key, value), _json(key, default), origin, source.where)


def _json(key: str, value: Any) -> str:
    return msgspec.json.encode(redact_setting(key, msgspec.to_builtins(value))).decode()
