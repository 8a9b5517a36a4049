"""What configuration keys mean, in the words of the files in conf/."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from cep_common.insight_messages import Setting
from cep_manager.logs.model import KnownSetting

UNITS = {
    "_ms": "ms",
    "_bytes": "bytes",
    "_rows": "rows",
    "_per_s": "per second",
    "_s": "s",
}
"""What numbers count, by the end of their keys; the longer end first."""


def explain(kind: str, settings: tuple[Setting, ...]) -> tuple[KnownSetting, ...]:
    """The settings of a process of `kind` with their units and meanings."""
    meanings = _meanings().get(kind, {})
    return tuple(
        KnownSetting(
            key=setting.key,
            value=setting.value,
            default=setting.default,
            origin=setting.origin,
            where=setting.where,
            unit=_unit(setting.key),
            meaning=_meaning(setting.key, meanings),
        )
        for setting in settings
    )


def _meaning(key: str, meanings: dict[str, str]) -> str:
    """That of the key, or of what stands within it where it is a mapping."""
    return meanings.get(key) or " ".join(text for inner, text in meanings.items() if inner.startswith(f"{key}."))


def _unit(key: str) -> str:
    return next((unit for end, unit in UNITS.items() if key.endswith(end)), "")


@functools.cache
def _meanings() -> dict[str, dict[str, str]]:
    """By kind of process and key; written by tools/write_meanings.py."""
    text = (Path(__file__).parent / "meanings.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, str]])
