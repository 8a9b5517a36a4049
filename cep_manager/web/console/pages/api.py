"""The page that describes the REST API."""

from __future__ import annotations

from flask import Blueprint, current_app, render_template

from cep_manager.web.api.blueprint import api_description
from cep_manager.web.console.page import Page, page
from cep_manager.web.console.texts.api import present_areas, present_schemas


def api_pages(console: Blueprint) -> None:
    """Add it."""

    @console.get("/api")
    @page
    def show_api() -> Page:
        document = api_description(current_app)
        return render_template("api.html", areas=present_areas(document), schemas=present_schemas(document))
