"""The console's first page: the system at a glance."""

from __future__ import annotations

from flask import Blueprint, render_template

from cep_manager.authoring.samples import samples
from cep_manager.web.api.routes.overview import asked_overview
from cep_manager.web.console.page import Page, fragment, page
from cep_manager.web.console.texts.overview import OverviewText, present_overview
from cep_manager.web.ports import ClusterPort


def overview_pages(console: Blueprint, view: ClusterPort) -> None:
    """Add the page and its fragment."""

    @console.get("/")
    @page
    def show_overview() -> Page:
        return render_template("overview.html", overview=_texts(view), samples=samples())

    @console.get("/fragments/overview")
    @fragment
    def overview_fragment() -> Page:
        return render_template("fragments/overview.html", overview=_texts(view), samples=samples())


def _texts(view: ClusterPort) -> OverviewText:
    return present_overview(asked_overview(view))
