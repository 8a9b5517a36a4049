"""Every role on every call that the manager has, as its routes and the table of permissions say: none is left out."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest
from account_world import PASSWORD, TENANT, USERS, AccountWorld
from flask import Flask
from storm_world import ID as STORM_ID
from werkzeug.routing import Rule

from cep_common.ids import SUPER_TENANT
from cep_common.security.access import Permission, Principal, is_granted
from cep_manager.web.access import CALLS

OF_THE_SUPER_TENANT = ("KnockOns", "AirportStorms", "Airports where many flights leave late")
ABOUT_WHAT_IS_SENT = {"api.preview_plan", "console.query_plan_fragment"}
"""The view of these tests makes up the same for every text."""

LOGIN = "accounts.log_in"
VALUES = {
    "identifier": STORM_ID,
    "name": "Storms",
    "component": "storms",
    "key": "0",
    "worker": "worker-1",
    "filename": "console.css",
}


def addresses(app: Flask) -> Iterator[tuple[str, str, str]]:
    """Method, address and call of everything that is served; where there are several actions, of each."""
    urls = app.url_map.bind("localhost")
    for rule in app.url_map.iter_rules():
        chosen = [_choices(rule, argument) for argument in sorted(rule.arguments)]
        for values in product(*chosen):
            arguments = dict(zip(sorted(rule.arguments), values, strict=True))
            call = f"{rule.endpoint}:{arguments['action']}" if "action" in arguments else rule.endpoint
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield method, urls.build(rule.endpoint, arguments, method=method), call


def _choices(rule: Rule, argument: str) -> list[str]:
    if argument in (rule.defaults or {}):
        return [str((rule.defaults or {})[argument])]
    items = getattr(rule._converters[argument], "items", None)
    return sorted(items) if items else [VALUES.get(argument, "1")]


class Told(NamedTuple):
    """An answer; of an endless one, its beginning."""

    status: int
    text: str
    location: str


def send(world: AccountWorld, method: str, address: str, name: str = "") -> Told:
    """What the call is answered with when the user makes it, or nobody."""
    shown = base64.b64encode(f"{name}:{PASSWORD}".encode()).decode()
    answer = world.app.test_client().open(
        address, method=method, headers={"Authorization": f"Basic {shown}"} if name else {}
    )
    goes_on = answer.mimetype == "text/event-stream"
    text = "" if goes_on and answer.status_code < 400 else answer.get_data(as_text=True)
    answer.close()
    return Told(answer.status_code, text, answer.headers.get("Location", ""))


@pytest.mark.thorough
@pytest.mark.parametrize("name", USERS)
def test_a_role_may_what_it_is_granted_and_nothing_else(accounts_at_work: AccountWorld, name: str) -> None:
    world = accounts_at_work
    role, tenant = USERS[name]
    allowed, refused = [], []
    for method, address, call in addresses(world.app):
        answer = send(world, method, address, name)
        granted = is_granted(Principal(name, role, tenant), CALLS[call])
        (allowed if granted else refused).append(call)
        about_rights = answer.status == 403 and "may not" in answer.text
        assert about_rights == (not granted), f"{method} {address} ({call}): {answer.status}"
        assert granted or answer.status == 403
        assert call == LOGIN or answer.status != 401, f"{method} {address} ({call})"
        # Storm's own API answers 500 to much that is wrong with a request.
        assert answer.status != 500 or address.startswith("/storm/"), f"{method} {address} ({call})"
    assert len(allowed) > 50
    assert bool(refused) == (name != "ada")


def test_nobody_may_anything_but_what_is_open(accounts_at_work: AccountWorld) -> None:
    world = accounts_at_work
    for method, address, call in addresses(world.app):
        answer = send(world, method, address)
        if CALLS[call] is Permission.OPEN:
            assert answer.status != 303
            assert (answer.status == 401) == (call == LOGIN)
        elif answer.status == 303:
            assert answer.location.startswith("/login"), f"{method} {address}"
        else:
            assert answer.status == 401, f"{method} {address}: {answer.status}"
    assert world.view.done == []
    assert world.view.deployed == []


@pytest.mark.thorough
@pytest.mark.parametrize("asked", ["", f"tenant={SUPER_TENANT}", "tenant=8"])
def test_a_tenant_sees_and_changes_nothing_of_another(accounts_at_work: AccountWorld, asked: str) -> None:
    world = accounts_at_work
    for method, address, call in addresses(world.app):
        answer = send(world, method, f"{address}?{asked}", "tess")
        told = [word for word in OF_THE_SUPER_TENANT if word in answer.text]
        assert call in ABOUT_WHAT_IS_SENT or told == [], f"{method} {address}"
        if asked and CALLS[call] is not Permission.OPEN:
            assert answer.status == 403, f"{method} {address}: {answer.status}"
    assert {key.tenant for key, _ in world.view.done} <= {TENANT}
    assert {tenant for tenant, _, _ in world.view.deployed} <= {TENANT}
    assert world.view.undeployed == []
