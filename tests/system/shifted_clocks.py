"""The clocks of the processes of a test, each of which can be wrong."""

from __future__ import annotations

import os
import struct
from pathlib import Path

MILLISECONDS = struct.Struct("<q")


class ShiftedClocks:
    """The files in `folder` that say by how much the clock of each process is wrong."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a process whose clock can be shifted."""
        file = self._folder / name
        file.write_bytes(MILLISECONDS.pack(0))
        places = [str(Path(__file__).parent / "shifted_clock"), os.environ.get("PYTHONPATH", "")]
        return {"CEP_TEST_CLOCK": str(file), "PYTHONPATH": os.pathsep.join(filter(None, places))}

    def names(self, role: str) -> list[str]:
        """Return the processes of that role."""
        return sorted(path.name for path in self._folder.iterdir() if path.name.startswith(role))

    def set(self, name: str, milliseconds: int) -> None:
        """Make the clock of that process wrong by so much; it follows at once."""
        with (self._folder / name).open("r+b") as file:  # in place: processes have mapped the file
            file.write(MILLISECONDS.pack(milliseconds))
