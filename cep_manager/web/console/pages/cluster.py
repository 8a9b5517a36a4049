"""The console's page of everything that is alive: managers, driver, executors, workers, tasks, the watched folder."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template

from cep_manager.web.console.page import Page, fragment, link, notice_of_deed, page
from cep_manager.web.console.texts.presenters import present_cluster
from cep_manager.web.ports import ManagerView


def cluster_pages(console: Blueprint, view: ManagerView) -> None:
    """Add the page and its fragment."""

    def page_data() -> dict[str, Any]:
        cluster = view.cluster()
        driver = view.overview().snapshot.driver
        return {
            "cluster": present_cluster(cluster),
            "topologies": cluster.driver.topologies if cluster.driver is not None else (),
            "executors": driver.latest.executors if driver is not None else (),
            "stage_hosts": cluster.driver.stage_hosts if cluster.driver is not None else (),
            "files": cluster.file_problems,
        }

    @console.get("/cluster")
    @page
    def show_cluster() -> Page:
        return render_template("cluster.html", notice=notice_of_deed(), **page_data())

    @console.post("/cluster/switch-nodes")
    @page
    def switch_nodes() -> Page:
        view.switch_nodes()
        return redirect(link("console.show_cluster", notice="nodes-switched"), code=303)

    @console.post("/cluster/restart-nodes")
    @page
    def restart_nodes() -> Page:
        view.restart_nodes()
        return redirect(link("console.show_cluster", notice="nodes-restart"), code=303)

    @console.post("/cluster/nodes/<name>/restart")
    @page
    def restart_node(name: str) -> Page:
        view.order_node(name, "restart")
        return redirect(link("console.show_cluster", notice="node-restarts"), code=303)

    @console.post("/cluster/nodes/<name>/shutdown")
    @page
    def stop_node(name: str) -> Page:
        view.order_node(name, "stop")
        return redirect(link("console.show_cluster", notice="node-stops"), code=303)

    @console.get("/fragments/cluster")
    @fragment
    def cluster_fragment() -> Page:
        return render_template("fragments/cluster.html", **page_data())
