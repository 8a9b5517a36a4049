"""The kinds that are compared with Siddhi: apps that run here, and at least one for each row of the support table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import measure as measuring
from benchmarks.peers.engines import EngineRefusedError, EngineTiming
from benchmarks.peers.kinds import HEAD, QueryKind, kinds
from benchmarks.peers.measure import Effort, PeerResult, measure
from benchmarks.peers.report import summary
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

TABLES = (Path(__file__).parents[2] / "docs" / "siddhiql" / "built-ins.md").read_text(encoding="utf-8")
FORMS = """
join | left outer join | right outer join | full outer join | unidirectional | within | every | -> | and | or | not S
<2:5> | <1:> | <2> | ]* | ]+ | ]? | group by | having | order by | limit | offset | output all every
output first every | output last every | output snapshot every | insert all events into | insert expired events into
delete K | update K | update or insert into K | @PrimaryKey | @Index | in K] | define window | define aggregation
define trigger | @OnError | @purge | insert into # | as 'low' or | partition with
"""
"""Of the constructs that are accepted, as they stand in a text."""
WITHOUT = {
    "log": "writes to a log, which costs what the log costs",
}
"""Built-ins without a kind, and why."""


@pytest.fixture(scope="module")
def known() -> list[QueryKind]:
    return kinds()


@pytest.mark.thorough
def test_kinds_are_apps_with_names_of_their_own(known: list[QueryKind]) -> None:
    assert len({kind.name for kind in known}) == len(known)
    for kind in known:
        app = analyse(parse(kind.app))
        assert {"S", "T", "Out"} <= set(app.streams), kind.name


def test_every_built_in_has_a_kind(known: list[QueryKind]) -> None:
    texts = "\n".join(kind.app for kind in known)
    section = TABLES
    rows = set(re.findall(r"^\| `(#?)(?:window\.)?(\w+)\(", section, re.MULTILINE))
    assert len(rows) > 45
    missing = [name for _, name in rows if not re.search(rf"\b{name}\(", texts) and name not in WITHOUT]
    assert not missing


def test_every_form_has_a_kind(known: list[QueryKind]) -> None:
    texts = "\n".join(re.sub(r"\s+", " ", kind.app) for kind in known)
    forms = [form.strip() for form in re.split(r"[|\n]", FORMS.strip())]
    assert len(forms) > 35
    assert not [form for form in forms if form not in texts]


def test_the_summary_has_mean_slowest_and_numbers_below_the_limits() -> None:
    one, other = QueryKind("fast", "group", ""), QueryKind("slow", "group", "")
    results = [
        PeerResult(one, siddhi={1: 10.0, 100: 20.0}, ours={100: 80.0, 1: 5.0}, outputs={"siddhi": 3, "ours": 3}),
        PeerResult(other, siddhi={1: 100.0, 100: 50.0}, ours={100: 25.0, 1: 1.0}, outputs={"siddhi": 9, "ours": 3}),
    ]
    assert [result.ratio(100) for result in results] == [4.0, 0.25]
    assert [result.ratio(1) for result in results] == [0.5, 0.01]
    lines = summary(results, (100, 1)).splitlines()
    assert lines[1] == "at 100: 2 kinds, geometric mean 1.00x, slowest slow 0.250x, 1 below 1x, 1 below 0.3x"
    assert lines[2] == "at 1: 2 kinds, geometric mean 0.071x, slowest slow 0.010x, 1 below 0.1x"
    assert lines[3] == "numbers of results differ: slow"


class HangingSiddhi:
    """Answers the first question, and measures single events, but never comes back from chunks."""

    start_ms = 1_000

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False

    def send(self, count: int, _batch: int) -> EngineTiming:
        return EngineTiming(count, 1.0, count)

    def measure(self, seconds: float, batch: int) -> EngineTiming:
        if batch > 1:
            raise EngineRefusedError("its process ended")
        return EngineTiming(10, seconds, 10)

    def close(self) -> None:
        self.closed = True


def test_a_kind_in_which_siddhi_hangs_has_no_ratio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measuring, "Siddhi", HangingSiddhi)
    kind = QueryKind("plain", "simple", f"{HEAD}from S select symbol insert into Out;")
    effort = Effort(warm_s=0.001, seconds=0.001, rounds=2, by_cpu=False)
    result = measure(kind, [100], effort, tmp_path)
    assert result.error == "Siddhi: its process ended"
    assert not result.siddhi
    assert result.ours[100] > 0
    assert result.ratio(100) is None


def test_a_run_that_resumes_measures_only_what_its_file_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []

    def measured_kind(kind: QueryKind, *_: object, **__: object) -> PeerResult:
        measured.append(kind.name)
        return PeerResult(kind, siddhi={1: 10.0, 100: 20.0}, ours={4_096: 40.0}, outputs={"siddhi": 3, "ours": 3})

    monkeypatch.setattr(command, "measure", measured_kind)
    monkeypatch.setattr(command, "write_events", lambda _folder: None)
    file = tmp_path / "peers.json"
    monkeypatch.setattr(command.logging, "disable", lambda _level: None)  # for all later tests of this process
    command.main(["--kind", "filter", "--json", str(file)])
    command.main(["--kind", "filter*", "--json", str(file), "--resume", "--size", "4096"])
    assert measured == ["filter", "filter_text"]
    assert "at 4096: 2 kinds, geometric mean 2.00x" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="add --clock wall"):
        command.main(["--kind", "filter*", "--json", str(file), "--resume", "--clock", "cpu"])
