"""The console's list of execution plans, and what is done to many of them at once."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, redirect, render_template, request

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_manager.authoring.samples import samples
from cep_manager.errors import BadRequestError, NotLeaderError, PlanStoreError
from cep_manager.monitoring.overview.plan_list import PlanFilter, matching, plan_page
from cep_manager.monitoring.status import plan_status
from cep_manager.plans.stored_plan import SettingsPatch
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.console.page import Page, fragment, link, notice_of_deed, page
from cep_manager.web.console.texts.plan_list import PAGE, PlanLists, present_plans
from cep_manager.web.ports import ClusterPort, ManagerView, PlanChangePort

BULK_ACTIONS = ("activate", "deactivate", "undeploy")
DONE = {
    "activate": "activated",
    "deactivate": "deactivated",
    "undeploy": "undeployed, once their accepted events are processed",
}
MOST_TOLD = 5
"""For how many plans the reason is shown why they could not be changed."""


def plan_list_pages(console: Blueprint, view: ManagerView) -> None:
    """Add the page, its fragment and the actions on many plans."""

    @console.get("/plans")
    @page
    def list_plans() -> Page:
        return _list_page(view, notice_of_deed())

    @console.get("/fragments/plans")
    @fragment
    def list_fragment() -> Page:
        return render_template("fragments/plans.html", plans=_texts(view), samples=samples(), wanted=_wanted())

    @console.post(f"/plan-list/<any({', '.join(BULK_ACTIONS)}):action>")
    @page
    def act_on_plans(action: str) -> Page:
        tenant, wanted = read_tenant(request), _wanted()
        if request.form.get("all") == "yes":
            names = [one.key.plan for one in matching(view.overview().snapshot, tenant, wanted)]
        else:
            # Many names come in one field: a form has a limited number of these.
            names = [*request.form.getlist("plan"), *request.form.get("plans", "").split("\n")]
        names = [name.strip() for name in names if name.strip()]
        if not names:
            raise BadRequestError("no plan was selected: select plans in the list first")
        if action == "undeploy" and request.form.get("confirmed") != "yes":
            return _ask(view, tenant, names)
        failures = _do(names, lambda name: _act(view, view.plan_key(tenant, name), action))
        text = f"{len(names) - len(failures)} of {len(names)} plans were {DONE[action]}."
        if not failures:
            return redirect(link("console.list_plans", notice=f"all-{action}", plans=len(names), **_query()), code=303)
        more = f" (and {len(failures) - MOST_TOLD} more)" if len(failures) > MOST_TOLD else ""
        return _list_page(view, f"{text} Not changed: {'; '.join(failures[:MOST_TOLD])}{more}")


def _act(view: PlanChangePort, key: PlanKey, action: str) -> None:
    if action == "undeploy":
        view.undeploy(key)
    else:
        view.change_settings(key, SettingsPatch(intake=action == "activate"))


def _do(names: list[str], act: Callable[[str], None]) -> list[str]:
    """Act on each plan; return why some could not be changed. Raises errors of the manager itself."""
    failures = []
    for name in names:
        try:
            act(name)
        except (NotLeaderError, PlanStoreError):
            raise
        except CepError as error:
            failures.append(f"{name}: {error.message}")
    return failures


def _ask(view: ClusterPort, tenant: int, names: list[str]) -> Page:
    snapshot = view.overview().snapshot
    keys = [key for name in names if (key := snapshot.key_named(tenant, name)) is not None]
    waiting = {key: plan_status(snapshot, key).unprocessed for key in keys}
    return render_template(
        "undeploy_many.html",
        names=[key.plan for key in keys],
        events=sum(one.events for one in waiting.values()),
        results=sum(one.results for one in waiting.values()),
    )


def _list_page(view: ClusterPort, notice: str) -> Page:
    return render_template(
        "plans.html", plans=_texts(view), samples=samples(), notice=notice, wanted=_wanted(), query=_query()
    )


def _texts(view: ClusterPort) -> PlanLists:
    number = request.args.get("page", "")
    first = (max(1, int(number[:6])) - 1) * PAGE if number.isascii() and number.isdigit() else 0
    snapshot = view.overview().snapshot
    return present_plans(snapshot, plan_page(snapshot, read_tenant(request), _wanted(), first, PAGE))


def _wanted() -> PlanFilter:
    return PlanFilter(**{name: request.values.get(name, "")[:200] for name in PlanFilter.__struct_fields__})


def _query() -> dict[str, str]:
    """Return the list's query parameters, for links that stay within it."""
    return {name: value for name in (*PlanFilter.__struct_fields__, "page") if (value := request.values.get(name, ""))}
