"""The registry of endpoints: leases, promises, replaced and forgotten endpoints."""

import pytest
from manager_world import KEY, LEASE_MS, receiver, request

from cep_common.protocol.registry import EndpointAssigned, EndpointRegistered, Rejected
from cep_manager.control.registry import FORGET_AFTER_LEASES, EndpointRegistry
from cep_manager.log_line import LogLine


@pytest.fixture
def registry() -> EndpointRegistry:
    return EndpointRegistry(heartbeat_ms=1_000, lease_ms=LEASE_MS)


def assigned(registry: EndpointRegistry, now_ms: int, **asked: str) -> str:
    answer, _ = registry.assign(request(**asked), now_ms)
    return answer.instance if isinstance(answer, EndpointAssigned) else answer.code  # type: ignore[union-attr]


def test_registering_again_is_the_heartbeat(registry: EndpointRegistry) -> None:
    assert registry.register(receiver(), 0) == EndpointRegistered(heartbeat_ms=1_000, lease_ms=LEASE_MS)
    registry.register(receiver(), LEASE_MS - 1)
    assert len(registry.records()) == 1
    assert assigned(registry, 2 * LEASE_MS - 2) == "EventReceiver#0"


def test_a_silent_endpoint_is_not_given_out_from_its_lease_on_and_a_warning_says_so(registry: EndpointRegistry) -> None:
    registry.register(receiver(), 0)
    answer, notes = registry.assign(request(), LEASE_MS)
    assert isinstance(answer, Rejected)
    assert answer.code == "no-endpoint"
    assert notes == [
        LogLine(
            "warning",
            "stale endpoint ignored plan=Storms[-1234] instance=EventReceiver#0 endpoint=10.0.0.2:15000 "
            "role=receiver silent_ms=3000",
        )
    ]


def test_a_silence_is_warned_of_once_and_the_next_one_again(registry: EndpointRegistry) -> None:
    registry.register(receiver(), 0)
    assert [len(registry.assign(request(), LEASE_MS + late)[1]) for late in (0, 1, 2)] == [1, 0, 0]
    registry.register(receiver(), LEASE_MS + 3)
    assert len(registry.assign(request(), 2 * LEASE_MS + 3)[1]) == 1


def test_assignments_spread_over_endpoints_before_any_heartbeat_tells_of_them(registry: EndpointRegistry) -> None:
    registry.register(receiver("r#0", port=1), 0)
    registry.register(receiver("r#1", port=2), 0)
    given = [assigned(registry, 0, requester=f"w{number}") for number in range(4)]
    assert given == ["r#0", "r#1", "r#0", "r#1"]


def test_an_assignment_that_never_became_a_connection_is_forgotten_after_a_lease(registry: EndpointRegistry) -> None:
    registry.register(receiver("r#0", port=1), 0)
    registry.register(receiver("r#1", port=2), 0)
    assert assigned(registry, 0, requester="w0") == "r#0"
    for instance, port in (("r#0", 1), ("r#1", 2)):
        registry.register(receiver(instance, port=port), LEASE_MS)
    assert assigned(registry, LEASE_MS, requester="w1") == "r#0"


def test_counts_fall_when_a_connection_goes(registry: EndpointRegistry) -> None:
    registry.register(receiver("r#0", port=1, connections=("w0/S", "w1/S")), 0)
    registry.register(receiver("r#1", port=2, connections=("w2/S",)), 0)
    assert assigned(registry, 0, requester="w3") == "r#1"
    registry.register(receiver("r#0", port=1, connections=()), LEASE_MS)
    registry.register(receiver("r#1", port=2, connections=("w2/S", "w3/S")), LEASE_MS)
    assert assigned(registry, LEASE_MS, requester="w4") == "r#0"


def test_who_asks_again_gives_back_what_it_was_given(registry: EndpointRegistry) -> None:
    registry.register(receiver("r#0", port=1), 0)
    registry.register(receiver("r#1", port=2), 0)
    assert [assigned(registry, 0) for _ in range(3)] == ["r#0", "r#0", "r#0"]


def test_the_streams_of_one_worker_are_promises_of_their_own(registry: EndpointRegistry) -> None:
    registry.register(receiver("r#0", port=1), 0)
    registry.register(receiver("r#1", port=2), 0)
    assert assigned(registry, 0, stream="Arrivals") == "r#0"
    assert assigned(registry, 0, stream="Departures") == "r#1"


def test_an_instance_that_comes_back_elsewhere_has_one_endpoint(registry: EndpointRegistry) -> None:
    registry.register(receiver(port=1), 0)
    registry.register(receiver(port=2), 10)
    assert [record.endpoint.port for record in registry.records()] == [2]


def test_an_endpoint_that_another_instance_took_over_is_its_alone(registry: EndpointRegistry) -> None:
    registry.register(receiver("old#0", port=1), 0)
    registry.register(receiver("new#0", port=1), 10)
    assert [record.instance for record in registry.records()] == ["new#0"]


def test_roles_and_plans_do_not_mix(registry: EndpointRegistry) -> None:
    other = type(KEY)(5, "Storms")
    registry.register(receiver(key=other), 0)
    assert assigned(registry, 0) == "no-endpoint"


def test_a_silent_endpoint_is_forgotten_after_some_leases(registry: EndpointRegistry) -> None:
    registry.register(receiver(), 0)
    limit_ms = FORGET_AFTER_LEASES * LEASE_MS
    assert registry.expire(limit_ms - 1) == []
    assert len(registry.expire(limit_ms)) == 1
    assert registry.records() == ()


def test_a_plans_endpoints_of_other_epochs_can_be_forgotten(registry: EndpointRegistry) -> None:
    registry.register(receiver("r#0", port=1, epoch=1), 0)
    registry.register(receiver("r#1", port=2, epoch=2), 0)
    registry.keep_epochs(KEY, (2,))
    assert [record.instance for record in registry.records()] == ["r#1"]


def test_one_instance_of_two_epochs_has_two_endpoints_and_who_asks_gets_that_of_its_epoch(
    registry: EndpointRegistry,
) -> None:
    for epoch in (1, 2, 1):
        registry.register(receiver("r#0", port=epoch, epoch=epoch), 0)
    assert [record.endpoint.port for record in registry.records()] == [1, 2]
    for epoch in (1, 2):
        answer, _ = registry.assign(request(epoch=epoch), 0)
        assert isinstance(answer, EndpointAssigned)
        assert answer.endpoint.port == epoch
