"""The adaptive lease: fixed on a quiet system, longer while heartbeats come late, bounded always."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cep_common.lease import LONGEST, REMEMBER_MS, AdaptiveLease


def _lease() -> AdaptiveLease:
    return AdaptiveLease(base_ms=3_000, heartbeat_ms=1_000)


def test_on_a_quiet_system_it_is_the_configured_one() -> None:
    lease = _lease()
    for now_ms in range(0, 100_000, 1_000):
        lease.heard(1_050, now_ms)
        assert lease.ms(now_ms) == 3_000


def test_a_late_heartbeat_stretches_it_for_a_minute_or_two() -> None:
    lease = _lease()
    lease.heard(2_500, 0)
    assert lease.ms(0) == 3_000 + 2 * 1_500
    assert lease.ms(REMEMBER_MS) == 6_000
    assert lease.ms(2 * REMEMBER_MS) == 3_000


def test_an_outage_is_no_delay() -> None:
    lease = _lease()
    lease.heard(6_001, 0)
    assert lease.ms(0) == 3_000


def test_after_a_long_pause_nothing_is_remembered() -> None:
    lease = _lease()
    lease.heard(2_500, 0)
    assert lease.ms(10 * REMEMBER_MS) == 3_000


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 30_000)), max_size=40))
def test_it_stays_between_the_configured_lease_and_its_bound(gaps: list[tuple[int, int]]) -> None:
    lease, now_ms = _lease(), 0
    for gap_ms, later_ms in gaps:
        now_ms += later_ms
        lease.heard(gap_ms, now_ms)
        assert 3_000 <= lease.ms(now_ms) <= LONGEST * 3_000
