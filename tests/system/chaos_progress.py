"""How far the results of plans have come, read from the files of their sinks as these grow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


class Progress:
    """The newest number that each plan has answered, by the worker that its event came in at. Only what the files have
    grown by is read, so that looking costs the same at the end of a long run as at its beginning."""

    def __init__(self, folders: Iterable[Path], plans: Iterable[str]) -> None:
        """Each of `folders` is a worker's; its sinks write `PLAN.ndjson`, with the key and the number of an event in
        each line. Keys begin with the name of the worker and a slash."""
        self._read = {(folder, plan): 0 for folder in folders for plan in plans}
        self._newest: dict[tuple[str, str], int] = {}

    def newest(self, plan: str, worker: str) -> int:
        """The newest number of `worker` that `plan` has answered; 0 when there is none. `look` brings it up to date."""
        return self._newest.get((plan, worker), 0)

    def look(self) -> None:
        """Takes in what has come since. Half a line at the end is not there yet; a file that was cut is read again."""
        for (folder, plan), read in self._read.items():
            path = folder / f"{plan}.ndjson"
            if not path.exists():
                continue
            with path.open("rb") as file:
                begin = read if path.stat().st_size >= read else 0
                file.seek(begin)
                lines, _, _ = file.read().rpartition(b"\n")
            self._read[folder, plan] = begin + len(lines) + 1 if lines else begin
            for line in lines.splitlines():
                row = json.loads(line)
                answered = plan, row["key"].partition("/")[0]
                self._newest[answered] = max(self._newest.get(answered, 0), row["number"])
