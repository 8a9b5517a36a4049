"""The page that describes the REST API."""

from __future__ import annotations

from flask import Blueprint, current_app, render_template

from cep_manager.api.blueprint import declared_calls
from cep_manager.api.openapi import describe_api
from cep_manager.console.api_texts import present_areas, present_schemas
from cep_manager.console.pages import Page, page


def api_pages(console: Blueprint) -> None:
    """Adds it."""

    @console.get("/api")
    @page
    def show_api() -> Page:
        document = describe_api(declared_calls(current_app))
        return render_template("api.html", areas=present_areas(document), schemas=present_schemas(document))
