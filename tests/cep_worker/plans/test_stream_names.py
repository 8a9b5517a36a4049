"""What names from outside mean, and which schemas fit."""

from __future__ import annotations

import pytest

from cep_common.errors import InputError
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import StreamBinding
from cep_worker.plans.streams import PlanStream, StreamDirectory, check_schema

AB = (("a", "int"), ("b", "string"))
BA = (("b", "string"), ("a", "int"))


def member(plan: str, stream: str, event_stream: str, attributes: tuple[tuple[str, str], ...] = AB) -> PlanStream:
    return PlanStream(PlanKey(-1234, plan), StreamBinding(stream, event_stream, attributes))


def members(directory: StreamDirectory, name: str) -> list[str]:
    return [one.name() for one in directory.resolve(name, SUPER_TENANT).members]


ONE = StreamDirectory([member("Late", "Dep", "Departures:1.0.0")])
SHARED = StreamDirectory([member("Late", "Dep", "Departures:1.0.0"), member("Early", "D", "Departures:1.0.0", BA)])
VERSIONS = StreamDirectory([member("Late", "Dep", "Departures:1.0.0"), member("Late", "Dep2", "Departures:2.0.0")])


@pytest.mark.parametrize(
    "name", ["Departures", "Departures:1.0.0", "Late/Dep", "Late/Departures", "Late/Departures:1.0.0"]
)
def test_a_stream_has_a_name_a_version_and_a_plan(name: str) -> None:
    assert members(ONE, name) == ["Late/Dep"]


def test_an_event_stream_that_plans_share_means_all_of_them() -> None:
    stream = SHARED.resolve("Departures", SUPER_TENANT)
    assert [one.name() for one in stream.members] == ["Late/Dep", "Early/D"]
    assert stream.schema == StreamSchema("Departures:1.0.0", AB)
    assert members(SHARED, "Early/D") == ["Early/D"]


@pytest.mark.parametrize(
    ("directory", "name", "code", "message"),
    [
        (ONE, "Departure", "unknown-stream", "did you mean Departures:1.0.0?"),
        (ONE, "Late/Other", "unknown-stream", "known: Departures:1.0.0"),
        (ONE, "Other/Dep", "unknown-stream", "known: Departures:1.0.0"),
        (ONE, "Dep", "unknown-stream", "there is no stream Dep"),
        (ONE, "", "unknown-stream", "known: Departures:1.0.0"),
        (StreamDirectory([]), "Departures", "unknown-stream", "no deployed plan"),
        (StreamDirectory(None), "Departures", "starting", "try again"),
        (VERSIONS, "Departures", "ambiguous-stream", "Late/Dep (Departures:1.0.0), Late/Dep2 (Departures:2.0.0)"),
        (VERSIONS, "Late/Departures", "ambiguous-stream", "Late/Dep2"),
    ],
)
def test_a_name_that_means_nothing_or_too_much_is_refused(
    directory: StreamDirectory, name: str, code: str, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        directory.resolve(name, SUPER_TENANT)
    assert refused.value.reason_code == code
    assert message in refused.value.message


def test_plans_that_define_an_event_stream_differently_must_be_named() -> None:
    directory = StreamDirectory(
        [member("Late", "Dep", "Departures:1.0.0"), member("Early", "D", "Departures:1.0.0", (("a", "long"),))]
    )
    with pytest.raises(InputError, match="Early/D"):
        directory.resolve("Departures", SUPER_TENANT)
    assert [stream.schema.stream for stream in directory.event_streams(SUPER_TENANT)] == ["Late/Dep", "Early/D"]
    assert directory.resolve("Early/D", SUPER_TENANT).schema.attributes == (("a", "long"),)


def test_the_id_of_a_stream_in_its_plan_wins_over_names_outside() -> None:
    directory = StreamDirectory([member("Late", "A", "B:1.0.0"), member("Late", "B", "A:1.0.0")])
    assert directory.resolve("Late/A", SUPER_TENANT).members[0].binding.event_stream == "B:1.0.0"
    assert directory.resolve("A", SUPER_TENANT).members[0].binding.stream == "B"


def test_every_event_stream_is_listed_once() -> None:
    assert [stream.schema.stream for stream in SHARED.event_streams(SUPER_TENANT)] == ["Departures:1.0.0"]
    assert [stream.schema.stream for stream in VERSIONS.event_streams(SUPER_TENANT)] == [
        "Departures:1.0.0",
        "Departures:2.0.0",
    ]


def test_a_schema_in_another_order_fits() -> None:
    check_schema(StreamSchema("x", BA), StreamSchema("Departures:1.0.0", AB))


def test_everything_that_is_wrong_with_a_schema_is_said_at_once() -> None:
    offered = StreamSchema("x", (("a", "long"), ("c", "int"), ("c", "int")))
    with pytest.raises(InputError) as refused:
        check_schema(offered, StreamSchema("Departures:1.0.0", AB))
    assert refused.value.reason_code == "schema-mismatch"
    for problem in ("b is missing (string)", "c is not an attribute", "a is long where int is defined", "given twice"):
        assert problem in refused.value.message


def test_a_tenant_neither_names_nor_sees_the_streams_of_another_one() -> None:
    theirs = PlanStream(PlanKey(7, "Late"), StreamBinding("Dep", "Departures:1.0.0", AB))
    directory = StreamDirectory([member("Late", "Dep", "Departures:1.0.0", BA), theirs])
    assert directory.resolve("Departures", 7).members == (theirs,)
    assert directory.resolve("Late/Dep", SUPER_TENANT).schema.attributes == BA
    assert [stream.members for stream in directory.event_streams(7)] == [(theirs,)]
    with pytest.raises(InputError, match="no deployed plan of tenant 8 has such streams now"):
        directory.resolve("Departures", 8)
