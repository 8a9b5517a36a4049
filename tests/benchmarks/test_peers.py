"""The kinds that are compared with Siddhi are apps that run here, and each has a name of its own."""

from __future__ import annotations

from benchmarks.peers.kinds import kinds
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse


def test_kinds_are_apps_with_names_of_their_own() -> None:
    known = kinds()
    assert len({kind.name for kind in known}) == len(known)
    for kind in known:
        app = analyse(parse(kind.app))
        assert {"S", "T", "Out"} <= set(app.streams), kind.name
