"""The console's pages about checkpoints and savepoints."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template, request

from cep_manager.checkpoints.view import checkpoint_overview
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.console.page import Page, fragment, link, page
from cep_manager.web.console.texts.checkpoints import present_checkpoints, present_overview, present_settings
from cep_manager.web.ports import ClusterPort, ManagerView

DEEDS = {
    "taken": "Savepoint {name} is being taken; {plan} keeps running.",
    "deleted": "Savepoint {name} is being deleted.",
    "restarted": "{plan} is restarted; it starts from savepoint {name}.",
    "cleared": "The checkpoints of {plan} were removed; it keeps running and takes new ones.",
}


def checkpoint_pages(console: Blueprint, view: ManagerView) -> None:
    """Add the list of all plans, and the page of each with what can be done there."""
    _list_pages(console, view)
    _plan_pages(console, view)
    _deeds(console, view)


def _list_pages(console: Blueprint, view: ClusterPort) -> None:
    def page_data() -> dict[str, Any]:
        overview = checkpoint_overview(view.overview().snapshot, read_tenant(request))
        return {"plans": present_overview(overview), "settings": present_settings(overview.settings)}

    @console.get("/checkpoints")
    @page
    def show_checkpoints() -> Page:
        return render_template("checkpoints.html", **page_data())

    @console.get("/fragments/checkpoints")
    @fragment
    def checkpoints_fragment() -> Page:
        return render_template("fragments/checkpoints.html", **page_data())


def _plan_pages(console: Blueprint, view: ManagerView) -> None:
    def page_data(name: str) -> dict[str, Any]:
        key = view.plan_key(read_tenant(request), name)
        return {"told": present_checkpoints(view.checkpoints(key), view.savepoints(key))}

    @console.get("/plans/<name>/checkpoints")
    @page
    def show_plan_checkpoints(name: str) -> Page:
        notice = DEEDS.get(request.args.get("done", ""), "").format(plan=name, name=request.args.get("savepoint", ""))
        return render_template("plan_checkpoints.html", notice=notice, **page_data(name))

    @console.get("/fragments/plans/<name>/checkpoints")
    @fragment
    def plan_checkpoints_fragment(name: str) -> Page:
        return render_template("fragments/plan_checkpoints.html", **page_data(name))


def _deeds(console: Blueprint, view: ManagerView) -> None:
    @console.post("/plans/<name>/savepoints")
    @page
    def take_savepoint(name: str) -> Page:
        key = view.plan_key(read_tenant(request), name)
        taken = view.take_savepoint(key, request.form.get("savepoint", "").strip())
        return _back(name, "taken", taken.name)

    @console.post("/plans/<name>/savepoints/<savepoint>/delete")
    @page
    def delete_savepoint(name: str, savepoint: str) -> Page:
        view.delete_savepoint(view.plan_key(read_tenant(request), name), savepoint)
        return _back(name, "deleted", savepoint)

    @console.post("/plans/<name>/savepoints/<savepoint>/restart")
    @page
    def restart_from_savepoint(name: str, savepoint: str) -> Page:
        view.restart(view.plan_key(read_tenant(request), name), savepoint)
        return _back(name, "restarted", savepoint)

    @console.post("/plans/<name>/checkpoints/clear")
    @page
    def clear_checkpoints(name: str) -> Page:
        view.clear_checkpoints(view.plan_key(read_tenant(request), name))
        return _back(name, "cleared", "")


def _back(name: str, done: str, savepoint: str) -> Page:
    return redirect(link("console.show_plan_checkpoints", name=name, done=done, savepoint=savepoint), code=303)
