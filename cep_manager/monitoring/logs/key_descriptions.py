"""Descriptions of configuration keys, taken from the files in conf/, which are part of this package (as a link)."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from cep_common.protocol.inspection import Setting
from cep_manager.monitoring.logs.model import KnownSetting

UNITS = {"_ms": "ms", "_bytes": "bytes", "_rows": "rows", "_per_s": "per second", "_s": "s"}
"""Units of numbers, by the suffix of their keys; longer suffixes come first."""

_FILES = Path(__file__).parent / "conf"
_KEY = re.compile(r"(?P<indent> *)(?P<key>[a-z_0-9]+):(?P<value>.*)")
_INDENT = 2


def explain(kind: str, settings: tuple[Setting, ...]) -> tuple[KnownSetting, ...]:
    """Return the settings of a process of `kind` with their units and meanings."""
    meanings = _meanings(kind)
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


def read_meanings(text: str) -> dict[str, str]:
    """Return by dotted key the comment above the key or behind it. Keys may be commented out themselves. Pure."""
    found: dict[str, str] = {}
    path: list[str] = []
    above: list[str] = []
    for written in text.splitlines():
        line = re.sub(r"^# ?", "", written)
        match = _KEY.fullmatch(line)
        if match:
            path = [*path[: len(match["indent"]) // _INDENT], match["key"]]
            behind = match["value"].partition(" # ")[2].strip()
            meaning = " ".join([*above, behind] if behind else above)
            if meaning:
                found[".".join(path)] = meaning
            above = []
        elif line.strip().startswith("#") and ".".join(path) in found and written.startswith(" "):
            found[".".join(path)] += f" {line.strip('# ')}"  # the comment continues below its key
        elif line.strip():
            above.append(line.strip().removeprefix("#").strip())
        else:
            above = []
    return found


@functools.cache
def _meanings(kind: str) -> dict[str, str]:
    """Return the descriptions for a process of `kind`; tasks have the group `stages` of the driver's configuration."""
    found = read_meanings((_FILES / f"{'driver' if kind == 'task' else kind}.yaml").read_text(encoding="utf-8"))
    if kind != "task":
        return found
    return {key.removeprefix("stages."): text for key, text in found.items() if key.startswith("stages.")}


def _meaning(key: str, meanings: dict[str, str]) -> str:
    """Return the key's description, or of a mapping that of what it contains."""
    return meanings.get(key) or " ".join(text for inner, text in meanings.items() if inner.startswith(f"{key}."))


def _unit(key: str) -> str:
    return next((unit for end, unit in UNITS.items() if key.endswith(end)), "")
