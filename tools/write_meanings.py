"""Writes what configuration keys mean, from the comments in conf/, for the console: `python tools/write_meanings.py`."""

from __future__ import annotations

import json
import re
from pathlib import Path

_ROOT = Path(__file__).parents[1]
WRITTEN = _ROOT / "cep_manager" / "logs" / "meanings.json"
_KEY = re.compile(r"(?P<indent> *)(?P<key>[a-z_0-9]+):(?P<value>.*)")
_INDENT = 2


def meanings() -> dict[str, dict[str, str]]:
    """By process and dotted key, the comment that stands above the key or behind it."""
    found = {name: _read((_ROOT / "conf" / f"{name}.yaml").read_text()) for name in ("manager", "driver", "worker")}
    stages = {key.removeprefix("stages."): text for key, text in found["driver"].items() if key.startswith("stages.")}
    return {**found, "task": stages}


def as_text() -> str:
    """The file as it should be."""
    return json.dumps(meanings(), indent=1, ensure_ascii=False) + "\n"


def _read(text: str) -> dict[str, str]:
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
            found[".".join(path)] += f" {line.strip('# ')}"  # the comment goes on below its key
        elif line.strip():
            above.append(line.strip().removeprefix("#").strip())
        else:
            above = []
    return found


if __name__ == "__main__":
    WRITTEN.write_text(as_text(), encoding="utf-8")
