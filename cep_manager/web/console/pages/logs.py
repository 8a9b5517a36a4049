"""The console's page of logs: a process or a plan is chosen, its newest records are followed by the page's script."""

from __future__ import annotations

from flask import Blueprint, render_template, request

from cep_common.ids import PlanKey
from cep_common.protocol.inspection import LEVELS
from cep_manager.monitoring.logs.processes import task_id
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.console.page import Page, fragment, link, page
from cep_manager.web.console.texts.process_list import by_host, plans_of
from cep_manager.web.ports import ClusterPort


def log_pages(console: Blueprint, view: ClusterPort) -> None:
    """Add the page and its fragment.

    The address determines what is shown: `process` (an id), or `plan`, or neither for all; `level` and `contains`
    filter. Templates link to a task's log by `task_log`.
    """
    console.app_context_processor(lambda: {"task_log": _task_log})

    @console.get("/logs")
    @page
    def show_logs() -> Page:
        process, plan = request.args.get("process", ""), request.args.get("plan", "")
        processes = view.insights().processes()
        known = next((one for one in processes if one.id == process), None)
        source = link("api.read_log", process=process) if known else link("api.search_logs", plan=plan or None)
        shown = render_template(
            "logs.html",
            process=known,
            missing=process if known is None else "",
            plan=plan,
            source=source,
            levels=LEVELS,
            level=_level(),
            contains=request.args.get("contains", ""),
            **_choice(view, "console.show_logs"),
        )
        return (shown, 404) if process and known is None else shown

    @console.get("/fragments/processes/<any(logs, configuration):purpose>")
    @fragment
    def processes_fragment(purpose: str) -> Page:
        return render_template("fragments/processes.html", **_choice(view, f"console.show_{purpose}"))


def _task_log(plan: str, tenant: int, epoch: int, task: int) -> str:
    return link("console.show_logs", process=task_id(PlanKey(tenant, plan), epoch, task))


def _choice(view: ClusterPort, target: str) -> dict[str, object]:
    """Return the template values of the list of processes; its entries lead to `target`."""
    processes = view.insights().processes()
    return {
        "hosts": by_host(processes),
        "plans": plans_of(processes, read_tenant(request)) if target == "console.show_logs" else (),
        "target": target,
        "chosen_process": request.args.get("process", ""),
        "chosen_plan": request.args.get("plan", ""),
    }


def _level() -> str:
    level = request.args.get("level", "").upper()
    return level if level in LEVELS else "DEBUG"
