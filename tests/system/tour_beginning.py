"""The tour's beginning: somebody logs in, writes a plan, deploys it and sends it events."""

from __future__ import annotations

import json

from tour_visitor import Visitor, quoted
from tour_ways import (
    EDITOR,
    MARKED,
    MARKED_LINE,
    MISTAKEN_LINE,
    PASSWORD,
    PLAN,
    READINGS,
    RECEIVED,
    ROOMS,
    SOON_S,
    STAGE,
    START_S,
    TEXT,
    TRIAL_S,
    Step,
    Tour,
    feeds,
    sees_all_connected,
    sees_received,
    sees_state,
)

# ---- who comes in --------------------------------------------------------------------------------------------------


def is_asked_to_log_in(tour: Tour) -> str:
    tour.visitor.go("/plans")
    tour.visitor.sees("h1", "Log in")
    return tour.visitor.read("h1")


def logs_in_with_the_password_for_once(tour: Tour) -> str:
    """By keyboard alone: the first field has the focus."""
    visitor = tour.visitor
    visitor.until("document.activeElement.id === 'name'", "the focus in the name's field")
    visitor.browser.type("admin")
    visitor.tab("#password")
    visitor.browser.type(tour.password)
    visitor.enter()
    visitor.sees("h1", "Choose a password")
    return visitor.read("form .meta")


def chooses_a_password(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.until("document.activeElement.id === 'former'", "the focus in the first field")
    visitor.browser.type(tour.password)
    for field in ("#chosen", "#again"):
        visitor.tab(field)
        visitor.browser.type(PASSWORD)
    visitor.enter()
    visitor.sees("#account", "admin")
    return visitor.page()


def finds_an_empty_system(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Overview")
    visitor.sees("#begin-title", "No execution plans yet")
    visitor.sees("main", "No plan is deployed yet, and there are no errors")
    return visitor.read("#begin-title")


# ---- a plan is written ---------------------------------------------------------------------------------------------


def writes_a_plan_with_a_mistake(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.send("#deploy-first", to="#editor:not([hidden])")
    visitor.until(f"{EDITOR}?.querySelector('.cm-content')", "the editor")
    _pastes(visitor, TEXT.replace("avg(degrees)", "avg(degree)"))
    visitor.sees("#verdict", "1 problem")
    visitor.until(f"{MARKED}?.textContent === 'degree'", "the wrong word, underlined")
    line = visitor.browser.evaluate(MARKED_LINE)
    visitor.check(line == MISTAKEN_LINE, f"line {MISTAKEN_LINE} marked, not {line}")
    visitor.sees("#panel-problems", "did you mean 'degrees'?")
    return visitor.read("#panel-problems li")


def _pastes(visitor: Visitor, text: str) -> None:
    """`text` stands in place of all that the editor held. The event is as the browser makes it of a clipboard, which no
    browser lets a program fill."""
    visitor.click("#editor")
    visitor.browser.press("a", 65, control=True)
    visitor.browser.evaluate(
        f"(() => {{ const clipboardData = new DataTransfer(); clipboardData.setData('text/plain', {quoted(text)});"
        f"{EDITOR}.querySelector('.cm-content').dispatchEvent("
        "new ClipboardEvent('paste', { clipboardData, bubbles: true })) })()"
    )


def mends_it(tour: Tour) -> str:
    """F8 goes to the mistake and selects it."""
    visitor = tour.visitor
    visitor.browser.press("F8", 119)
    visitor.until(
        f"[{EDITOR}.getSelection?.(), getSelection()].some((one) => String(one) === 'degree')",
        "the wrong word selected",
    )
    visitor.browser.type("degrees")
    visitor.sees("#verdict", f"{PLAN} can be deployed")
    visitor.until(f"!{MARKED}", "nothing underlined")
    return visitor.read("#verdict")


def tries_it(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.click("#tab-try")
    visitor.until("document.querySelector('#try-stream option')", "a stream to choose")
    visitor.write("#try-events", "\n".join(json.dumps({"room": 7, "degrees": one}) for one in (29.0, 33.0)))
    visitor.click("#try-run")
    visitor.sees("#try-told", "2 events ran through", TRIAL_S)
    visitor.sees("#try-results summary", f"Stream {PLAN}")
    visitor.sees("#try-results td", "31")
    return visitor.read("#try-told")


def sees_what_it_would_become(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.click("#tab-flow")
    visitor.until(f"document.querySelector('#flow [data-node^=\"{STAGE}\"]')", "the stage in the planned topology")
    visitor.click("#tab-query-plan")
    visitor.sees("#panel-query-plan", STAGE)
    visitor.click("#tab-changes")
    visitor.sees("#panel-changes", "all of this is new")
    visitor.refused(404)
    return visitor.read("#panel-changes")


def deploys_it(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.send("#plan-form button", "Deploy", to=".head .badge")
    visitor.sees(".notice", f"{PLAN} was deployed")
    visitor.sees("h1", PLAN)
    return visitor.read(".notice")


def watches_it_go_active(tour: Tour) -> str:
    visitor = tour.visitor
    sees_state(visitor, "active", START_S)
    visitor.until("document.querySelectorAll('#graph [data-node]').length >= 4", "the graph", SOON_S)
    sees_all_connected(visitor)
    visitor.check(visitor.number(RECEIVED) == 0, "nothing received yet")
    return visitor.read(".fact-line")


# ---- events --------------------------------------------------------------------------------------------------------


def sends_an_event(tour: Tour) -> str:
    """From the form of the simulator, by keyboard."""
    visitor = tour.visitor
    visitor.follow("Events")
    visitor.send("main a.button", "Send events Temperatures:1.0.0")
    visitor.click("[data-name=room]")
    visitor.browser.type("7")
    visitor.tab("[data-name=degrees]")
    visitor.browser.type("31.5")
    visitor.enter()
    visitor.sees("#single-told", "Accepted by worker-1")
    tour.sent += 1
    return visitor.read("#single-told")


def feeds_a_file(tour: Tour) -> str:
    return feeds(tour)


def sees_counts_move(tour: Tour) -> str:
    """On the graph and in the tables: all that was sent came in, and out what the query lets out."""
    visitor = tour.visitor
    visitor.follow(f"{PLAN}", within=".description")
    sent, hot = READINGS + 1, READINGS // len(ROOMS) + 1
    sees_received(visitor, sent, hot)
    visitor.sees("#graph [data-node] .figure", f"{sent} sent", SOON_S)
    visitor.sees("#graph [data-node] .figure", f"{hot} got", SOON_S)
    return f"{sent} received, {hot} emitted"


BEGINNING: tuple[Step, ...] = (
    is_asked_to_log_in,
    logs_in_with_the_password_for_once,
    chooses_a_password,
    finds_an_empty_system,
    writes_a_plan_with_a_mistake,
    mends_it,
    tries_it,
    sees_what_it_would_become,
    deploys_it,
    watches_it_go_active,
    sends_an_event,
    feeds_a_file,
    sees_counts_move,
)
