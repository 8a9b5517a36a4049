"""The tour's end: all pages that show something, then the plan and the visitor leave."""

from __future__ import annotations

from tour_visitor import quoted
from tour_ways import CHECKPOINT_S, PLAN, SOON_S, STAGE, Step, Tour, sees_while_sending, to_the_plan

# ---- what else there is to see -------------------------------------------------------------------------------------


def looks_at_the_list_of_plans(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Execution plans")
    visitor.click(f"#more-{PLAN}")
    visitor.until(f"document.getElementById('menu-{PLAN}').matches(':popover-open')", "the menu")
    return visitor.read(f"#row-{PLAN} td:nth-of-type(3)")


def looks_at_a_stage(tour: Tour) -> str:
    visitor = tour.visitor
    to_the_plan(tour)
    visitor.click(f"#graph [data-node^={quoted(STAGE)}]")
    visitor.sees("h1", STAGE)
    visitor.settled()
    visitor.sees("#work", "average", SOON_S)
    return visitor.read("#totals tbody tr")


def watches_results_come(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Events")
    visitor.send("main a.button", f"Watch {PLAN}:1.0.0")
    visitor.sees("#tail-told", "Watching")
    sees_while_sending(tour, "#tail-rows td", "2")
    return visitor.read("#tail-rows tr")


def looks_at_the_event_flow(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Event flow")
    visitor.sees("#flow", PLAN)
    return visitor.read("#flow")


def looks_at_checkpoints(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Checkpoints")
    visitor.follow(PLAN, within="main")
    visitor.until("document.querySelector('.history .tone-good')", "a complete checkpoint", CHECKPOINT_S)
    return visitor.read(".history tbody tr")


def looks_at_exceptions(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Exceptions")
    visitor.sees("main .empty", "No exceptions")
    return visitor.read("main .empty")


def looks_at_workers(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Workers")
    visitor.follow("worker-1", within="main")
    visitor.sees("main", "Temperatures")
    return visitor.read(".tiles")


def looks_at_the_cluster(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Cluster")
    visitor.sees("main", "worker-1")
    return visitor.read("main section")


def searches_logs(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Logs")
    visitor.until("document.querySelectorAll('#log-lines li.log-line').length", "records")
    visitor.write("#log-contains", PLAN)
    visitor.until(
        "((told) => told.length && told.every((one) => one.textContent.includes('HotRooms')))"
        "([...document.querySelectorAll('#log-lines li.log-line')])", "records with what is searched, and no others"
    )  # fmt: skip
    return visitor.read("#log-lines li.log-line")


def looks_at_the_configuration(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Configuration")
    visitor.send("#processes a[href*='process=driver']")
    visitor.write("#filter", "checkpoint.location")
    visitor.sees("#settings tr:not([hidden])", str(tour.folder))
    return visitor.read("[data-filter] [role=status]")


def looks_at_users_and_what_was_done(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Users")
    visitor.sees("main", "admin")
    visitor.follow("Audit")
    visitor.sees("main td", "rebalance")
    return visitor.read("main tbody tr")


def looks_at_the_rest_api(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("REST API")
    visitor.sees("main", "/plans")
    return visitor.read("main .description")


def looks_at_the_overview(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.follow("Overview")
    visitor.sees(".overview-tiles", "1 active")
    visitor.sees("#attention-title + .badge", "No alerts")
    return visitor.read(".overview-tiles")


# ---- the end -------------------------------------------------------------------------------------------------------


def undeploys_it(tour: Tour) -> str:
    visitor = tour.visitor
    to_the_plan(tour)
    visitor.click("#do-undeploy")
    visitor.sees("#ask-undeploy p", "It accepts no events")
    visitor.send("#ask-undeploy button", "Undeploy")
    visitor.sees(".notice", f"{PLAN} is being undeployed", SOON_S)
    visitor.until(f"!document.getElementById('row-{PLAN}')", "no plan in the list", SOON_S)
    return visitor.read(".notice")


def logs_out(tour: Tour) -> str:
    visitor = tour.visitor
    visitor.send("#log-out")
    visitor.sees(".notice", "You are logged out")
    visitor.go("/plans")
    visitor.sees("h1", "Log in")
    return visitor.read("h1")


PAGES: tuple[Step, ...] = (
    looks_at_the_list_of_plans,
    looks_at_a_stage,
    watches_results_come,
    looks_at_the_event_flow,
    looks_at_checkpoints,
    looks_at_exceptions,
    looks_at_workers,
    looks_at_the_cluster,
    searches_logs,
    looks_at_the_configuration,
    looks_at_users_and_what_was_done,
    looks_at_the_rest_api,
    looks_at_the_overview,
    undeploys_it,
    logs_out,
)
