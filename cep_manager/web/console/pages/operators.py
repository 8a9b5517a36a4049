"""The console's page of how the engine runs a plan: the operators of each query, and why no faster ones."""

from __future__ import annotations

from flask import Blueprint, render_template, request

from cep_common.errors import CepError
from cep_manager.errors import UnknownPlanError
from cep_manager.web.api.caller_slots import one_at_a_time
from cep_manager.web.api.failures import status_of
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.console.page import Page, page
from cep_manager.web.ports import ManagerView


def operator_pages(console: Blueprint, view: ManagerView) -> None:
    """Add the page; each time it is shown a process builds the engine of every stage."""

    @console.get("/plans/<name>/operators")
    @page
    def show_plan_operators(name: str) -> Page:
        key = view.plan_key(read_tenant(request), name)
        try:
            with one_at_a_time():
                found = view.explain_plan(key)
        except UnknownPlanError:
            raise
        except CepError as error:
            return render_template("plan_operators.html", plan=key.plan, failure=error.message), status_of(error)
        return render_template("plan_operators.html", plan=key.plan, stages=found.stages)
