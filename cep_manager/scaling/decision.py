"""Decides how many instances a stage has, from its load. Pure.

              busiest instance above grow_above for grow_after_ms,
              or events wait and it is above half of that
        ┌──────────────────────────────────────────────────────┐
        │                                                      ▼
    n instances                                    load / target instances
        ▲                                                      │
        └──────────────────────────────────────────────────────┘
              for shrink_after_ms so few would have been enough,
              at `target` each, in every single interval

Growing looks at the mean and shrinking at the peak, and between `target` and `grow_above` nothing changes. So a load
that varies around a constant leads to one number of instances, which is kept: after a stage has grown its peak asks for
that number, and after it has shrunk its mean is below what makes it grow. Keys need not share the work evenly: a
smaller number that was too small before is not tried again at the same rate of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import fmean

import msgspec

from cep_manager.config import ScalingConfig
from cep_manager.plans.compiled_plan import ScaledStage
from cep_manager.plans.scaling import Scaling

CATCH_UP_S = 60.0
"""Within this time the instances should process what waits besides what arrives."""
LAGGING_S = 2.0
"""Events wait when there are more of them than are processed in this time."""
UNEVEN = 0.5
"""When the instances have less than this share of the busiest one's load on average, more instances do not help."""
AFTER_PROBLEM = 5
"""How many times as long a stage rests after a change that failed."""
OUTGROWN = 0.8
"""A number of instances that was too small is tried again below this share of the rate at which it was."""


class StageLoad(msgspec.Struct, frozen=True):
    """The load of a stage in the interval that ended at `at_ms`, a time of day.

    `busy` has the share of the interval that each instance spent working. `events_per_s` is what they processed
    together, `waiting` how many events waited for them at the end.
    """

    at_ms: int
    length_ms: int
    busy: tuple[float, ...]
    events_per_s: float
    waiting: int


class ScalingDecision(msgspec.Struct, frozen=True):
    """The number of `instances` that a stage is to have, and why; `wanted` is what it would have without a limit."""

    instances: int
    reason: str
    wanted: int
    events_per_s: float = 0.0


def decide(
    stage: ScaledStage,
    instances: int,
    loads: Sequence[StageLoad],
    history: Sequence[Scaling],
    room: int,
    config: ScalingConfig,
    now_ms: int,
) -> ScalingDecision:
    """Return how many instances the stage is to have.

    Args:
        stage: The stage and its bounds.
        instances: How many it has.
        loads: Its loads with that number, oldest first, without gaps.
        history: Its earlier changes, oldest first.
        room: The largest number for which there is room in the cluster.
        config: When it grows and shrinks.
        now_ms: The time of day.
    """
    recent = [one for one in loads if one.at_ms > now_ms - config.grow_after_ms]
    rate = fmean(one.events_per_s for one in recent) if recent else 0.0

    def keep(reason: str, wanted: int = instances) -> ScalingDecision:
        return ScalingDecision(instances, reason, wanted, rate)

    if history and (rest_ms := _rest_ms(history[-1], config, now_ms)) > 0:
        return keep(f"it was changed recently; the next decision is in {ceil(rest_ms / 1_000)} s")
    if not recent or not _covers(loads, config.grow_after_ms, now_ms):
        return keep(f"its load has not been measured for {config.grow_after_ms // 1_000} s yet")
    busiest, average = _busiest(recent), fmean(share for one in recent for share in one.busy)
    needed = busiest * instances * _pressure(recent, rate)
    lags = recent[-1].waiting > LAGGING_S * rate and _waits_throughout(recent, rate)
    if busiest > config.grow_above or (lags and busiest > config.grow_above / 2):
        observed = f"busiest instance {busiest:.0%} for {config.grow_after_ms // 1_000} s"
        observed += f", {recent[-1].waiting:,} events wait" if lags else ""
        if instances > 1 and average < UNEVEN * busiest:
            return keep(f"{observed}, the average {average:.0%}: a few keys have most of the events")
        wanted = min(2 * instances, max(instances + 1, ceil(needed / config.target)))
        return _grow(stage, instances, wanted, room, observed, rate)
    return _shrink(stage, instances, loads, history, config, now_ms, keep(f"busiest instance {busiest:.0%}"))


def _grow(stage: ScaledStage, instances: int, wanted: int, room: int, observed: str, rate: float) -> ScalingDecision:
    given = min(wanted, stage.most, max(room, instances))
    if given > instances:
        return ScalingDecision(given, f"{observed} → {_counted(given)}", wanted, rate)
    limit = f"its maximum is {stage.most}" if stage.most <= room else "the cluster has no slots for more"
    return ScalingDecision(instances, f"{observed}, but {limit}", wanted, rate)


def _shrink(
    stage: ScaledStage,
    instances: int,
    loads: Sequence[StageLoad],
    history: Sequence[Scaling],
    config: ScalingConfig,
    now_ms: int,
    kept: ScalingDecision,
) -> ScalingDecision:
    if instances <= stage.least or not _covers(loads, config.shrink_after_ms, now_ms):
        return kept
    lately = [one for one in loads if one.at_ms > now_ms - config.shrink_after_ms]
    if any(one.waiting > LAGGING_S * one.events_per_s for one in lately):
        return kept
    peak, rate = max(max(one.busy) for one in lately), max(one.events_per_s for one in lately)
    fewer = max(stage.least, ceil(peak * instances / config.target))
    outgrown = [one.instances_before for one in history if _outgrown(one, rate)]
    fewer = max(fewer, max(outgrown, default=0) + 1)
    if fewer >= instances:
        return kept
    reason = f"busiest instance at most {peak:.0%} for {config.shrink_after_ms // 1_000} s → {_counted(fewer)}"
    return ScalingDecision(fewer, reason, fewer, kept.events_per_s)


def _outgrown(past: Scaling, rate: float) -> bool:
    """Return whether the number of instances before that change was too small for this rate of events."""
    grew = past.instances_after > past.instances_before and not past.problem
    return grew and past.events_per_s > 0 and rate >= OUTGROWN * past.events_per_s


def _rest_ms(last: Scaling, config: ScalingConfig, now_ms: int) -> int:
    """Return how long the stage rests after its last change."""
    whole_ms = config.rest_ms * (AFTER_PROBLEM if last.problem else 1)
    ago_ms = now_ms - last.at_ms
    # The manager that made the change may have had a clock that was far ahead, or this one's was set back since.
    return whole_ms - ago_ms if ago_ms > -config.rest_ms else 0


def _covers(loads: Sequence[StageLoad], span_ms: int, now_ms: int) -> bool:
    return bool(loads) and loads[0].at_ms - loads[0].length_ms <= now_ms - span_ms


def _busiest(loads: Sequence[StageLoad]) -> float:
    """Return the mean load of the instance that has the highest one."""
    return max(fmean(shares) for shares in zip(*(one.busy for one in loads), strict=True))


def _waits_throughout(loads: Sequence[StageLoad], rate: float) -> bool:
    return all(one.waiting > LAGGING_S * rate for one in loads)


def _pressure(loads: Sequence[StageLoad], rate: float) -> float:
    """Return what arrives and waits as a multiple of what is processed, at least 1."""
    span_s = sum(one.length_ms for one in loads[1:]) / 1_000
    if not rate or not span_s:
        return 1.0
    growth = max(0.0, (loads[-1].waiting - loads[0].waiting) / span_s)
    return (rate + growth + loads[-1].waiting / CATCH_UP_S) / rate


def _counted(instances: int) -> str:
    return f"{instances} instance{'' if instances == 1 else 's'}"
