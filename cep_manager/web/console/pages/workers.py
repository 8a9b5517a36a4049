"""The console's pages about workers."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, render_template

from cep_manager.monitoring.worker_view import worker_details, worker_list
from cep_manager.web.console.page import Page, fragment, page
from cep_manager.web.console.texts.workers import present_worker, present_worker_row
from cep_manager.web.ports import ClusterPort


def worker_pages(console: Blueprint, view: ClusterPort) -> None:
    """Add the list of workers and the page of each."""

    def of_all() -> dict[str, Any]:
        return {"workers": [present_worker_row(one) for one in worker_list(view.overview().snapshot).workers]}

    def of_one(worker: str) -> dict[str, Any]:
        return {"told": present_worker(worker_details(view.overview().snapshot, worker))}

    @console.get("/workers")
    @page
    def show_workers() -> Page:
        return render_template("workers.html", **of_all())

    @console.get("/fragments/workers")
    @fragment
    def workers_fragment() -> Page:
        return render_template("fragments/workers.html", **of_all())

    @console.get("/workers/<worker>")
    @page
    def show_worker(worker: str) -> Page:
        return render_template("worker.html", **of_one(worker))

    @console.get("/fragments/workers/<worker>")
    @fragment
    def worker_fragment(worker: str) -> Page:
        return render_template("fragments/worker.html", **of_one(worker))
