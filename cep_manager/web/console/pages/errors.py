"""The console's pages about what went wrong."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, g, render_template, request

from cep_common.security.access import Permission, is_granted
from cep_manager.monitoring.error_view import plan_errors, process_errors, tenant_errors
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.console.page import Page, fragment, page
from cep_manager.web.console.texts.errors import present_error, present_errors
from cep_manager.web.ports import ManagerView


def exception_pages(console: Blueprint, view: ManagerView) -> None:
    """Add the page of all plans and processes, and that of each plan."""

    def of_all() -> dict[str, Any]:
        overview = view.overview()
        snapshot, now_ms = overview.snapshot, overview.now_ms
        plans = tenant_errors(snapshot, read_tenant(request)).errors
        processes = process_errors(snapshot).errors if _sees_system() else ()
        return {
            "errors": present_errors(plans, snapshot, now_ms),
            "processes": present_errors(processes, snapshot, now_ms),
        }

    def of_plan(name: str) -> dict[str, Any]:
        overview = view.overview()
        snapshot, now_ms = overview.snapshot, overview.now_ms
        key = view.plan_key(read_tenant(request), name)
        found = plan_errors(snapshot, key)
        cause = found.root_cause
        return {
            "plan": name,
            "state": snapshot.plans[key].state.value,
            "root_cause": present_error(cause, snapshot, now_ms) if cause is not None else None,
            "errors": present_errors(found.errors, snapshot, now_ms),
        }

    @console.get("/exceptions")
    @page
    def show_exceptions() -> Page:
        return render_template("exceptions.html", **of_all())

    @console.get("/fragments/exceptions")
    @fragment
    def exceptions_fragment() -> Page:
        return render_template("fragments/exceptions.html", **of_all())

    @console.get("/plans/<name>/exceptions")
    @page
    def show_plan_exceptions(name: str) -> Page:
        return render_template("plan_exceptions.html", **of_plan(name))

    @console.get("/fragments/plans/<name>/exceptions")
    @fragment
    def plan_exceptions_fragment(name: str) -> Page:
        return render_template("fragments/plan_exceptions.html", **of_plan(name))


def _sees_system() -> bool:
    """Return whether the caller sees errors of processes, which serve all tenants."""
    principal = g.get("principal")
    return principal is None or is_granted(principal, Permission.SEE_SYSTEM)
