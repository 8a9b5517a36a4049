"""The 18 topology tests of WSO2 SP (`SiddhiTopologyCreatorTestCase`) as apps of ours, with what must come of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Rows = tuple[tuple[Any, ...], ...]

_T = "define stream T (device string, room string, temp double);\n"
_R = "define stream R (room string, isOn bool);\n"
_USER = "@source(type='http', @map(type='json')) "
_LOG = "@sink(type='log') "
_MADE = "@dist(execGroup='g1') from T[temp > 0] select device, room, temp insert into TI;\n"
_OUT = "define stream Out (device string, temp double);\n"
_MAX = "from {}#window.lengthBatch(2) select device, max(temp) as temp insert into {};"
_TEMPS: Rows = (("d1", "r1", 60.0), ("d2", "r2", 50.0), ("d1", "r1", 80.0), ("d2", "r2", 60.0))


def _keyed(group: str, parallel: int, key: str, stream: str, query: str) -> str:
    head = f"@dist(execGroup='{group}', parallel='{parallel}') partition with ({key} of {stream}) begin\n"
    return f"{head}{query}\nend;\n"


@dataclass(frozen=True, slots=True)
class Fact:
    """A test of SP, its app, and which topics, groups and answers it must have.

    `topics` has key and partitions of each topic between groups, `groups` the number of child apps of each group. Where
    there are `events`, `answers` is how many come of them, by stream. The steps of `first` come before: a stream, its
    events, and the stream whose topic must have been read before the next step. What is `refused` has that problem.
    """

    test: str
    text: str
    groups: dict[str, int] = field(default_factory=dict)
    topics: dict[str, tuple[str, int]] = field(default_factory=dict)
    receivers: int = 1
    first: tuple[tuple[str, Rows, str], ...] = ()
    events: tuple[tuple[str, Rows], ...] = ()
    answers: dict[str, int] = field(default_factory=dict)
    refused: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    """By stream with a source of its own: the topic that it reads, or `http`."""
    sinks: dict[str, str] = field(default_factory=dict)
    """By stream with a sink of its own: the topic that it writes."""

    @property
    def name(self) -> str:
        """The name of its app."""
        return self.test.removeprefix("test")

    @property
    def app(self) -> str:
        """Its text."""
        return f"@App:name('{self.name}') @App:transport('kafka')\n{self.text}"


_WINDOW = _MAX.format("TI", "Out")
_JOIN = (
    "from TI#window.length(9) join R#window.length(1) on TI.room == R.room select TI.device, TI.temp insert into Out;"
)
_PATTERN = "from every e1=R -> e2=TI[e1.room == room] select e2.device, e2.temp insert into Out;"
_SEQUENCE = "from every e1=TI, e2=TI[temp > e1.temp] select e1.device, e2.temp insert into Out;"
_WINDOWED = _T + _OUT + _MADE + _keyed("g2", 2, "device", "TI", _WINDOW)
_DEVICES = ("T", _TEMPS[:2], "TI")
"""Begins the instances of both devices: events of streams without a key reach those that exist."""
_PRICES: Rows = (("a", "x", 5.0), ("b", "y", 6.0), ("a", "y", 7.0), ("b", "x", 8.0))
_ONE = {"TI": ("device", 2)}
_PLAIN = "@dist(execGroup='{}', parallel='{}') from {}[temp > {}] select device, temp insert into {};\n"

FACTS = (
    Fact(
        "testSiddhiTopologyCreator",
        "@source(type='kafka', topic.list='custom', group.id='g', threading.option='single.thread', "
        "bootstrap.servers='SERVERS', @map(type='json'))\n"
        "define stream S (symbol string, tier string, price double);\n"
        "@dist(execGroup='g1', parallel='2') from S[price > 0] select symbol, tier, price insert into A;\n"
        "@dist(execGroup='g2', parallel='2') partition with (symbol of A) begin "
        "from A#window.length(5) select symbol, avg(price) as price insert into B; end;\n"
        "@dist(execGroup='g3') from B#window.length(3) select symbol, max(price) as price insert into C;\n"
        "@dist(execGroup='g4', parallel='4') partition with (tier of A) begin "
        "from A#window.length(2) select tier, sum(price) as price insert into D; end;\n"
        "@dist(execGroup='g5', parallel='3') from D[price > 1] select tier, price insert into E;\n",
        {"g1": 2, "g2": 2, "g3": 1, "g4": 4, "g5": 3},
        {"A": ("", 1), "B": ("", 1), "D": ("", 3)},
        events=(("S", _PRICES),),
        answers={"C": 4, "E": 4},
        sources={"S": "custom"},
    ),
    Fact(
        "testFilterQuery",
        _T + _OUT + _MADE + _PLAIN.format("g2", 3, "TI", 55, "Out"),
        {"g1": 1, "g2": 3},
        {"TI": ("", 3)},
        events=(("T", _TEMPS),),
        answers={"Out": 3},
    ),
    Fact(
        "testPartitionWithWindow",
        _WINDOWED,
        {"g1": 1, "g2": 2},
        _ONE,
        events=(("T", _TEMPS),),
        answers={"Out": 2},
    ),
    Fact(
        "testPartitionWithSequence",
        _T + _OUT + _MADE + _keyed("g2", 2, "device", "TI", _SEQUENCE),
        {"g1": 1, "g2": 2},
        _ONE,
        events=(("T", _TEMPS),),
        answers={"Out": 2},
    ),
    Fact(
        "testPartitionWithPattern",
        _T + _R + _OUT + _MADE + _keyed("g2", 2, "device", "TI", _PATTERN),
        {"g1": 1, "g2": 2},
        _ONE,
        first=(_DEVICES, ("R", (("r1", True), ("r2", True)), "R")),
        events=(("T", _TEMPS[2:]),),
        answers={"Out": 2},
    ),
    Fact(
        "testJoinWithPartition",
        _T + _R + _OUT + _MADE + _keyed("g2", 2, "device", "TI", _JOIN),
        {"g1": 1, "g2": 2},
        _ONE,
        first=(_DEVICES, ("R", (("r1", True),), "R")),
        events=(("T", _TEMPS[2:]),),
        answers={"Out": 2},
    ),
    Fact(
        "testPartitionStrategy",
        _WINDOWED + _PLAIN.format("g2", 2, "TI", 55, "O2"),
        {"g1": 1, "g2": 2},
        _ONE,
        events=(("T", _TEMPS),),
        answers={"Out": 2, "O2": 3},
    ),
    Fact(
        "testPartitionMultiSubscription",
        _WINDOWED + _keyed("g3", 3, "device", "TI", _MAX.format("TI", "O3")),
        {"g1": 1, "g2": 2, "g3": 3},
        {"TI": ("device", 3)},
        events=(("T", _TEMPS),),
        answers={"Out": 2, "O3": 2},
    ),
    Fact(
        "testPartitionWithMultiKey",
        _WINDOWED + _keyed("g3", 3, "room", "TI", _MAX.format("TI", "O3")),
        {"g1": 1, "g2": 2, "g3": 3},
        {"TI": ("", 1)},
        events=(("T", _TEMPS),),
        answers={"Out": 2, "O3": 2},
    ),
    Fact(
        "testUserDefinedSink",
        _T + "@sink(type='kafka', topic='UserDefinedSink.mine', bootstrap.servers='SERVERS', @map(type='json')) "
        + _OUT + _MADE + _keyed("g2", 2, "device", "TI", _WINDOW) + _PLAIN.format("g3", 2, "TI", 75, "Out"),
        {"g1": 1, "g2": 2, "g3": 2},
        _ONE,
        events=(("T", _TEMPS),),
        answers={"Out": 3},
        sinks={"Out": "UserDefinedSink.mine"},
    ),
    Fact(
        "testSinkStreamForSource",
        _T + _LOG + _OUT + _MADE + _keyed("g2", 2, "device", "TI", _WINDOW) + _PLAIN.format("g3", 1, "Out", 55, "O2"),
        {"g1": 1, "g2": 2, "g3": 1},
        _ONE | {"Out": ("", 1)},
        events=(("T", _TEMPS),),
        answers={"O2": 2},
    ),
    Fact(
        "testUsergivenSourceNoGroup",
        _USER + _T + _USER + "define stream U (device string, room string, temp double);\n" + _OUT
        + _PLAIN.format("g1", 3, "T", 0, "Out") + _PLAIN.format("g2", 3, "U", 0, "O2"),
        {"g1": 3, "g2": 3},
        events=(("T", _TEMPS), ("U", _TEMPS[:2])),
        answers={"Out": 4, "O2": 2},
        sources={"T": "http", "U": "http"},
    ),
    Fact(
        "testUsergivenParallelSources",
        _USER.replace("@map", "@dist(parallel='2'), @map") + _USER.replace("@map", "@dist(parallel='3'), @map")
        + _T + _OUT + _PLAIN.format("g1", 3, "T", 0, "Out") + _PLAIN.format("g2", 1, "T", 0, "O2"),
        {"g1": 3, "g2": 1},
        receivers=3,
        events=(("T", _TEMPS),),
        answers={"Out": 4, "O2": 4},
        sources={"T": "http"},
    ),
    Fact(
        "testPassthoughWithMultipleSubscription",
        _USER + _T + _OUT + _PLAIN.format("g1", 1, "T", 0, "O2")
        + _keyed("g2", 3, "device", "T", _MAX.format("T", "Out")),
        {"g1": 1, "g2": 3},
        events=(("T", _TEMPS),),
        answers={"Out": 2, "O2": 4},
        sources={"T": "http"},
    ),
    Fact(
        "testUsergivenSourceSingleGroup",
        _USER + _T + _OUT + _keyed("g1", 3, "device", "T", _MAX.format("T", "Out")),
        {"g1": 3},
        events=(("T", _TEMPS),),
        answers={"Out": 2},
        sources={"T": "http"},
    ),
    Fact(
        "testSingleGroupWithMultipleSubscriptions",
        _T + _OUT + _PLAIN.format("g1", 2, "T", 0, "M") + _PLAIN.format("g1", 2, "M", 55, "Out"),
        {"g1": 2},
        events=(("T", _TEMPS),),
        answers={"Out": 3},
    ),
    Fact(
        "testParallelPartitionsWithinSameGroup",
        _T + _OUT + _PLAIN.format("g1", 2, "T", 0, "M") + _keyed("g1", 2, "device", "M", _MAX.format("M", "Out")),
        refused="partition-reads-own-group",
    ),
    Fact(
        "testPartitionTopicCreationDisabledWithNoTopics",
        "@App:transportChannelCreationEnabled('false') " + _WINDOWED,
        {"g1": 1, "g2": 2},
        _ONE,
    ),
)  # fmt: skip
