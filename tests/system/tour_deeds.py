"""The tour's middle: all that can be done to a plan that runs."""

from __future__ import annotations

import time

from tour_visitor import UnmetError
from tour_ways import (
    AGAIN_S,
    PLAN,
    SOON_S,
    STAGE,
    START_S,
    Step,
    Tour,
    feeds,
    sees_all_connected,
    sees_received,
    sees_state,
    sees_while_sending,
    to_the_plan,
    to_the_simulator,
)

# ---- what can be done to it ----------------------------------------------------------------------------------------


def samples_a_stage(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow(STAGE, within="#processors")
    visitor.write("#percent", "100")
    visitor.send("#sample-begin", to="#sample-end")
    to_the_simulator(tour)
    feeds(tour)
    to_the_plan(tour)
    visitor.follow(STAGE, within="#processors")
    sees_while_sending(tour, "#seen td", "Temperatures")
    visitor.click("#samples h2")
    return visitor.read("#seen tbody tr")


def ends_the_sample(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.send("#sample-end", to="#sample-begin")
    return visitor.read("#samples .card-head")


def sets_statistics_to_detail(tour: Tour) -> str:
    visitor = tour.visitor
    to_the_plan(tour)
    visitor.click("#do-statistics")
    visitor.browser.evaluate("document.getElementById('statistics-level').focus()")
    visitor.browser.type("d")
    visitor.until("document.getElementById('statistics-level').value === 'detail'", "the level detail, chosen by key")
    visitor.send("#ask-statistics button", "Statistics")
    visitor.sees(".head .label", "statistics detail")
    return visitor.read(".notice")


def traces_it(tour: Tour) -> str:
    """Its events are in the worker's log then."""
    visitor = tour.visitor
    visitor.click("#do-trace")
    visitor.send("#ask-trace button", "Trace")
    visitor.sees(".head .label", "traced")
    visitor.follow("Workers")
    visitor.follow("worker-1", within="main")
    visitor.follow("Log", within=".head")
    sees_while_sending(tour, "#log-lines", "before processing")
    return visitor.read("#log-lines li.log-line:last-child")


def ends_the_trace(tour: Tour) -> str:
    visitor = tour.visitor
    to_the_plan(tour)
    visitor.click("#do-trace")
    visitor.send("#ask-trace button", "End trace")
    visitor.until(
        "[...document.querySelectorAll('.head .label')].every((one) => one.textContent !== 'traced')", "no trace"
    )
    return visitor.read(".notice")


def deactivates_it(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.click("#do-deactivate")
    visitor.send("#ask-deactivate button", "Deactivate")
    sees_state(visitor, "inactive", SOON_S)
    to_the_simulator(tour)
    visitor.click("#single-example")
    _is_refused(tour)
    return visitor.read("#single-told")


def _is_refused(tour: Tour) -> None:
    """The simulator's event is refused, at the latest when the worker has heard of it."""
    visitor = tour.visitor
    deadline_s = time.monotonic() + SOON_S
    while True:
        visitor.click("#single button.primary")
        try:
            visitor.sees("#single-told.tone-bad", f"{PLAN} was deactivated", AGAIN_S)
        except UnmetError:
            if time.monotonic() > deadline_s:
                raise
            tour.sent += 1  # it was accepted
        else:
            visitor.refused(422)
            return


def activates_it(tour: Tour) -> str:
    visitor = tour.visitor
    to_the_plan(tour)
    visitor.click("#do-activate")
    visitor.send("#ask-activate button", "Activate")
    sees_state(visitor, "active", SOON_S)
    return visitor.read(".notice")


def rebalances_it_to_two_workers(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.click("#do-rebalance")
    visitor.write("#rebalance-workers", "2")
    visitor.send("#ask-rebalance button", "Rebalance")
    visitor.until("document.querySelectorAll('#tasks tbody tr').length === 2", "two tasks", START_S)
    sees_state(visitor, "active", START_S)
    sees_all_connected(visitor)
    return visitor.read(".fact-line")


def events_flow_on(tour: Tour) -> str:
    to_the_simulator(tour)
    feeds(tour)
    to_the_plan(tour)
    sees_received(tour.visitor, tour.sent)
    return f"{tour.sent} received"


DEEDS: tuple[Step, ...] = (
    samples_a_stage,
    ends_the_sample,
    sets_statistics_to_detail,
    traces_it,
    ends_the_trace,
    deactivates_it,
    activates_it,
    rebalances_it_to_two_workers,
    events_flow_on,
)
