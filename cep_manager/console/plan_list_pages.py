"""The console's list of execution plans."""

from __future__ import annotations

from flask import Blueprint, render_template, request

from cep_manager.api.requests import read_tenant
from cep_manager.authoring.samples import samples
from cep_manager.console.pages import Page, fragment, notice_of_deed, page
from cep_manager.console.plan_list_texts import PlanLists, present_plans
from cep_manager.manager_view import ManagerView


def plan_list_pages(console: Blueprint, view: ManagerView) -> None:
    """Adds the page and its fragment."""

    @console.get("/plans")
    @page
    def list_plans() -> Page:
        return render_template("plans.html", plans=_told(view), samples=samples(), notice=notice_of_deed())

    @console.get("/fragments/plans")
    @fragment
    def list_fragment() -> Page:
        return render_template("fragments/plans.html", plans=_told(view), samples=samples())


def _told(view: ManagerView) -> PlanLists:
    return present_plans(view.plans(read_tenant(request)), view.overview().snapshot)
