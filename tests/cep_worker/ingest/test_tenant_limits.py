"""How many events a second a tenant may send."""

from __future__ import annotations

import pytest
import requests
from worker_world import EVENT, PLAN, World, departures, until

from cep_common.protocol.registry import TenantLimit
from cep_worker.ingest.tenant_limits import RateLimit, TenantLimits


def test_a_limit_holds_in_the_long_run_however_batches_fall() -> None:
    limit = RateLimit()
    limit.set(100, now_ms=0)
    taken, now_ms = 0, 0
    while now_ms < 10_000:
        while limit.has_room():
            limit.take(70)
            taken += 70
        now_ms += 100
        limit.refill(now_ms)
    assert 1_000 <= taken <= 1_100 + 70  # ten seconds and the burst at their beginning


def test_a_limit_begins_with_a_burst() -> None:
    limit = RateLimit()
    limit.set(100, now_ms=5_000)
    assert limit.has_room()
    limit.take(99)
    assert limit.has_room()
    limit.take(1)
    assert not limit.has_room()


def test_a_tenant_that_has_sent_too_much_is_told_how_long_to_wait() -> None:
    limits = TenantLimits()
    limits.apply([TenantLimit(7, 10)], now_ms=0)
    assert limits.wait_ms(7) == 0
    limits.of(7, now_ms=0).take(30)
    assert limits.wait_ms(7) == 2_001
    limits.refill(2_001)
    assert (limits.wait_ms(7), limits.wait_ms(8)) == (0, 0)


def test_silence_saves_no_more_than_a_burst() -> None:
    limit = RateLimit()
    limit.set(100, now_ms=0)
    limit.refill(60_000)
    limit.take(100)
    assert not limit.has_room()


def test_without_a_limit_there_is_always_room_and_a_limit_can_be_taken_back() -> None:
    limits = TenantLimits()
    limit = limits.of(7, now_ms=0)
    limit.take(1_000_000)
    assert limit.has_room()
    limits.apply([TenantLimit(7, 10)], now_ms=0)
    limit.take(10)
    assert not limit.has_room()
    assert limits.of(8, now_ms=0).has_room()
    limits.apply([], now_ms=1)
    assert limit.has_room()


@pytest.mark.parametrize("first", [1, 5])
def test_http_is_told_to_come_again_and_links_wait(world: World, first: int) -> None:
    world.manager.limits = (TenantLimit(PLAN.key.tenant, first),)
    world.start(PLAN)
    receiver = world.connected_receiver()
    url = world.url("/events/Departures")
    until(lambda: requests.post(url, json=[EVENT] * 50, timeout=10).status_code == 429)
    refused = requests.post(url, json=EVENT, timeout=10)
    assert (refused.status_code, refused.json()["code"]) == (429, "over-limit")
    assert 20 // first <= int(refused.headers["Retry-After"]) <= 50 // first
    sender = world.sender()
    sender.send(departures((1, "DL", 5, 1.5)))
    world.manager.limits = ()
    until(lambda: "DL" in {row[1] for row in receiver.rows()}, receiver)
