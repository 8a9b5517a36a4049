"""The states of a deployed plan, and every legal move between them, as one table.

    ┌─────────┐  slots, driver   ┌───────────┐   all tasks    ┌────────┐
    │ WAITING │ ───────────────▶ │ DEPLOYING │ ─────────────▶ │ ACTIVE │ ◀──┐
    └─────────┘                  └───────────┘                └────────┘    │ all tasks again
         ▲                             │                           │  something was lost
         │ no driver, no slots         ▼ gave up                   ▼        │
         └──────────────────────── ┌────────┐ ◀────────────── ┌────────────┐┘
                                   │ FAILED │                 │ RESTARTING │
                                   └────────┘                 └────────────┘

The manager does not remember what should happen next; it compares what it wants with what driver and tasks report now
(the signal) and moves accordingly. So it may itself be restarted at any moment.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from cep_common.messages import TopologyReport


class PlanState(str, Enum):
    """What a user is told of a plan's topology."""

    WAITING = "waiting"
    """Nothing runs, and something outside the plan is missing: a driver, slots."""
    DEPLOYING = "deploying"
    """Submitted; its tasks are coming up."""
    ACTIVE = "active"
    """Every task runs and is heard."""
    RESTARTING = "restarting"
    """It has run and lost something; it is being brought back."""
    FAILED = "failed"
    """It does not run and will not by itself; a person must act."""


class Signal(str, Enum):
    """What is observed of a plan now."""

    NO_DRIVER = "no driver"
    UNUSABLE = "unusable"
    UNLISTED = "unlisted"
    QUEUED = "queued"
    STARTING = "starting"
    INCOMPLETE = "incomplete"
    COMPLETE = "complete"
    RESTARTED = "restarted"
    GIVEN_UP = "given up"
    ENDING = "ending"


_W, _D, _A, _R, _F = PlanState

MOVES: dict[Signal, dict[PlanState, PlanState]] = {
    #                    from waiting, deploying, active, restarting, failed
    Signal.NO_DRIVER:   {_W: _W, _D: _W, _A: _W, _R: _W, _F: _W},
    Signal.UNUSABLE:    {_W: _F, _D: _F, _A: _F, _R: _F, _F: _F},
    Signal.UNLISTED:    {_W: _D, _D: _D, _A: _D, _R: _D, _F: _D},
    Signal.QUEUED:      {_W: _W, _D: _W, _A: _W, _R: _W, _F: _W},
    Signal.STARTING:    {_W: _D, _D: _D, _A: _R, _R: _R, _F: _D},
    Signal.INCOMPLETE:  {_W: _D, _D: _D, _A: _R, _R: _R, _F: _D},
    Signal.COMPLETE:    {_W: _A, _D: _A, _A: _A, _R: _A, _F: _A},
    Signal.RESTARTED:   {_W: _R, _D: _R, _A: _R, _R: _R, _F: _R},
    Signal.GIVEN_UP:    {_W: _F, _D: _F, _A: _F, _R: _F, _F: _F},
    Signal.ENDING:      {_W: _D, _D: _D, _A: _R, _R: _R, _F: _D},
}  # fmt: skip
"""The state that each signal leads to, from each state."""


class Observation(msgspec.Struct, frozen=True):
    """All that bears on a plan's state.

    `unusable` says why the plan cannot be run at all; `driver_missing` why no driver can be asked. `report` is the
    driver's on the plan's current epoch. `tasks_live` of `tasks_required` tasks are heard; `silent_tasks` names those
    that were heard once.
    """

    unusable: str
    driver_missing: str
    report: TopologyReport | None
    tasks_live: int
    tasks_required: int
    silent_tasks: tuple[str, ...] = ()


def read_signal(observation: Observation) -> tuple[Signal, str]:
    """What an observation means, and the reason to show with it (empty when all is well)."""
    if observation.unusable:
        return Signal.UNUSABLE, observation.unusable
    if observation.driver_missing:
        return Signal.NO_DRIVER, observation.driver_missing
    report = observation.report
    if report is None:
        return Signal.UNLISTED, "submitted; the driver has not taken it up yet"
    match report.state:
        case "waiting":
            return Signal.QUEUED, report.reason or "the driver has not started it yet"
        case "starting":
            return Signal.STARTING, report.reason or "the driver is starting its tasks"
        case "restarting":
            return Signal.RESTARTED, report.reason or "the driver is restarting it"
        case "failed":
            return Signal.GIVEN_UP, report.reason or "the driver gave no reason"
        case "stopping":
            return Signal.ENDING, report.reason or "the driver is ending the topology"
        case "running":
            return _running(observation)


def _running(observation: Observation) -> tuple[Signal, str]:
    if observation.silent_tasks:
        return Signal.INCOMPLETE, f"not heard any more: {', '.join(observation.silent_tasks)}"
    if observation.tasks_live < observation.tasks_required:
        return Signal.INCOMPLETE, f"{observation.tasks_live} of {observation.tasks_required} tasks have registered"
    return Signal.COMPLETE, ""
