"""The states of a deployed plan, and all legal transitions between them, in one table.

    ┌─────────┐  slots, driver   ┌───────────┐   all tasks    ┌────────┐  deactivate  ┌──────────┐
    │ WAITING │ ───────────────▶ │ DEPLOYING │ ─────────────▶ │ ACTIVE │ ◀──────────▶ │ INACTIVE │
    └─────────┘                  └───────────┘                └────────┘   activate   └──────────┘
         ▲                             │                        │ ▲  │ edit, other number of workers
         │ no driver, no slots         │     something was lost ▼ │  ▼
         │                             │          ┌────────────┐  │ ┌──────────┐ ┌─────────────┐
         └── from everywhere           │          │ RESTARTING │──┤ │ UPDATING │ │ REBALANCING │
                                       ▼ gave up  └────────────┘  │ └──────────┘ └─────────────┘
                                   ┌────────┐                     └─────┴───────────────┘ it runs, or what was
             from everywhere ────▶ │ FAILED │          from everywhere, when it is undeployed: DRAINING, then KILLED
                                   └────────┘

The manager does not remember what should happen next; it compares the desired state with the reports of driver and
tasks (the signal) and moves accordingly. So it may itself be restarted at any moment.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

from cep_common.protocol.drivers import TopologyReport

ChangeKind = Literal["update", "rebalance"]
"""Why another topology takes a plan's place: another text, or another number of workers."""


class PlanState(str, Enum):
    """The state of a plan's topology as users see it."""

    WAITING = "waiting"
    """Nothing runs, and something outside the plan is missing: a driver, slots."""
    DEPLOYING = "deploying"
    """Submitted; its tasks are coming up."""
    ACTIVE = "active"
    """Every task runs and sends heartbeats."""
    DEGRADED = "degraded"
    """It is active, and a sink or source of it, or a worker's log, does not work. Shown only, see
    `cep_manager.monitoring.degraded`: what happens next is decided as for an active one."""
    INACTIVE = "inactive"
    """Every task runs and keeps its state; workers accept no events for it."""
    RESTARTING = "restarting"
    """It has run and lost something, or was ordered to restart; it is being restored."""
    REBALANCING = "rebalancing"
    """A topology of another number of workers is to take its place."""
    UPDATING = "updating"
    """A topology of another text is to take its place."""
    FAILED = "failed"
    """It does not run, and does not restart automatically; a person must act."""
    DRAINING = "draining"
    """It is being undeployed: it accepts no events and processes those that were accepted."""
    KILLED = "killed"
    """It was undeployed; the manager removes it."""


class StateSignal(str, Enum):
    """What is observed of a plan now, or asked of it."""

    NO_DRIVER = "no driver"
    UNUSABLE = "unusable"
    UNLISTED = "unlisted"
    QUEUED = "queued"
    STARTING = "starting"
    INCOMPLETE = "incomplete"
    COMPLETE = "complete"
    PAUSED = "paused"
    DRAINS = "drains"
    RESTARTED = "restarted"
    GIVEN_UP = "given up"
    ENDING = "ending"
    UPDATE = "update"
    REBALANCE = "rebalance"
    RESTART = "restart"
    UNDEPLOY = "undeploy"


_W, _D, _A, _, _I, _R, _B, _U, _F, _G, _K = PlanState
Moves = dict[PlanState, PlanState | None]

MOVES: dict[StateSignal, Moves] = {
    #       from waiting, deploying, active, inactive, restarting, rebalancing, updating, failed, draining, killed
    StateSignal.NO_DRIVER:  {_W: _W, _D: _W, _A: _W, _I: _W, _R: _W, _B: _W, _U: _W, _F: _W, _G: _W, _K: None},
    StateSignal.UNUSABLE:   {_W: _F, _D: _F, _A: _F, _I: _F, _R: _F, _B: _F, _U: _F, _F: _F, _G: _F, _K: None},
    StateSignal.UNLISTED:   {_W: _D, _D: _D, _A: _D, _I: _D, _R: _R, _B: _B, _U: _U, _F: _D, _G: _D, _K: None},
    StateSignal.QUEUED:     {_W: _W, _D: _W, _A: _W, _I: _W, _R: _W, _B: _W, _U: _W, _F: _W, _G: _W, _K: None},
    StateSignal.STARTING:   {_W: _D, _D: _D, _A: _R, _I: _R, _R: _R, _B: _B, _U: _U, _F: _D, _G: _R, _K: None},
    StateSignal.INCOMPLETE: {_W: _D, _D: _D, _A: _R, _I: _R, _R: _R, _B: _B, _U: _U, _F: _D, _G: _R, _K: None},
    StateSignal.COMPLETE:   {_W: _A, _D: _A, _A: _A, _I: _A, _R: _A, _B: _A, _U: _A, _F: _A, _G: _A, _K: None},
    StateSignal.PAUSED:     {_W: _I, _D: _I, _A: _I, _I: _I, _R: _I, _B: _I, _U: _I, _F: _I, _G: _I, _K: None},
    StateSignal.DRAINS:     {_W: _G, _D: _G, _A: _G, _I: _G, _R: _G, _B: _G, _U: _G, _F: _G, _G: _G, _K: None},
    StateSignal.RESTARTED:  {_W: _R, _D: _R, _A: _R, _I: _R, _R: _R, _B: _R, _U: _R, _F: _R, _G: _R, _K: None},
    StateSignal.GIVEN_UP:   {_W: _F, _D: _F, _A: _F, _I: _F, _R: _F, _B: _F, _U: _F, _F: _F, _G: _F, _K: None},
    StateSignal.ENDING:     {_W: _D, _D: _D, _A: _R, _I: _R, _R: _R, _B: _B, _U: _U, _F: _D, _G: _R, _K: None},
    StateSignal.UPDATE:     {_W: _U, _D: _U, _A: _U, _I: _U, _R: _U, _B: _U, _U: _U, _F: _U, _G: _U, _K: None},
    StateSignal.REBALANCE:  {_W: _B, _D: _B, _A: _B, _I: _B, _R: _B, _B: _B, _U: None, _F: _B, _G: _B, _K: None},
    StateSignal.RESTART:    {_W: _R, _D: _R, _A: _R, _I: _R, _R: _R, _B: None, _U: None, _F: _R, _G: _R, _K: None},
    StateSignal.UNDEPLOY:   {_W: _K, _D: _K, _A: _K, _I: _K, _R: _K, _B: _K, _U: _K, _F: _K, _G: _K, _K: None},
}  # fmt: skip
"""The state that each signal leads to, from each state; None where it may not be asked for."""


class Observation(msgspec.Struct, frozen=True):
    """Everything that determines a plan's state.

    `unusable` says why the plan cannot be run at all; `driver_missing` why no driver can be asked. `report` is the
    driver's on the plan's current epoch. `tasks_live` of `tasks_required` tasks are heard; `silent_tasks` names those
    that were heard once. `held_back` says why the plan may not be submitted yet. `intake` is False when no events are
    to be taken in. `change` is in progress, and `change_reason` is its progress. `draining` is what a plan that is
    being undeployed waits for; empty: it is not.
    """

    unusable: str
    driver_missing: str
    report: TopologyReport | None
    tasks_live: int
    tasks_required: int
    silent_tasks: tuple[str, ...] = ()
    intake: bool = True
    change: ChangeKind | None = None
    change_reason: str = ""
    held_back: str = ""
    draining: str = ""


def read_signal(observation: Observation) -> tuple[StateSignal, str]:
    """Return the signal in an observation, and the reason to show with it (empty when all is well)."""
    if observation.unusable:
        return StateSignal.UNUSABLE, observation.unusable
    if observation.driver_missing:
        return StateSignal.NO_DRIVER, observation.driver_missing
    report = observation.report
    if report is None and observation.held_back:
        return StateSignal.QUEUED, observation.held_back
    if report is None:
        return StateSignal.UNLISTED, "submitted; the driver has not accepted it yet"
    match report.state:
        case "waiting":
            return StateSignal.QUEUED, report.reason or "the driver has not started it yet"
        case "starting":
            return StateSignal.STARTING, report.reason or "the driver is starting its tasks"
        case "restarting":
            return StateSignal.RESTARTED, report.reason or "the driver is restarting it"
        case "failed":
            return StateSignal.GIVEN_UP, report.reason or "the driver gave no reason"
        case "stopping":
            return StateSignal.ENDING, report.reason or "the driver is ending the topology"
        case "running":
            return _running(observation)


def _running(observation: Observation) -> tuple[StateSignal, str]:
    if observation.silent_tasks:
        return StateSignal.INCOMPLETE, f"no heartbeats from: {', '.join(observation.silent_tasks)}"
    if observation.tasks_live < observation.tasks_required:
        return StateSignal.INCOMPLETE, f"{observation.tasks_live} of {observation.tasks_required} tasks have registered"
    if observation.draining:
        return StateSignal.DRAINS, observation.draining
    if observation.change is not None:
        return signal_of(observation.change), observation.change_reason
    if not observation.intake:
        return StateSignal.PAUSED, "deactivated: workers accept no events for it until it is activated"
    return StateSignal.COMPLETE, ""


def signal_of(change: ChangeKind) -> StateSignal:
    """Return the signal by which a change is asked for, and seen while it is under way."""
    return StateSignal.UPDATE if change == "update" else StateSignal.REBALANCE
