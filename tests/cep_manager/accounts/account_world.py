"""A manager with accounts in one process: users of every role, browsers that keep cookies, a clock that tests move."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher
from flask.testing import FlaskClient
from manager_world import FakeView, World
from werkzeug.test import TestResponse

from cep_common.clock import ManualClock
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.web import Gate
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.administration import Administration, administration
from cep_manager.accounts.model import User
from cep_manager.accounts.passwords import Passwords
from cep_manager.config import AccountsConfig, DatabaseConfig
from cep_manager.persistence.database import Database
from cep_manager.web.app import create_app

QUICK = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
"""Hashes that cost nothing: what a test is about is seldom their strength."""

PASSWORD = "correct horse battery"  # noqa: S105 - of users that are made here
BODY_BYTES = 20_000
TENANT = 7

USERS = {
    "ada": (AccessRole.ADMIN, None),
    "eve": (AccessRole.EDITOR, None),
    "otto": (AccessRole.OPERATOR, None),
    "vera": (AccessRole.VIEWER, None),
    "tess": (AccessRole.ADMIN, TENANT),
}


class AccountWorld:
    """The app, its accounts, and its view; `users` have chosen their passwords."""

    def __init__(
        self, folder: Path, *, login: bool = True, secure: bool = False, tokens: str = "", requests_per_s: int = 5_000
    ) -> None:
        self.clock = ManualClock(1_000_000)
        self.world = World()
        self.world.active()
        self.view = FakeView(self.world)
        self.database = Database(DatabaseConfig(f"sqlite:///{folder}/manager.db"), idle_ms=2_000)
        self.accounts = Accounts(self.database, AccountsConfig(login=login), self.clock, QUICK)
        self.admin: Administration = administration(self.accounts)
        gate = Gate(ServerSecurity(tokens=tokens, requests_per_s=requests_per_s), "127.0.0.1", self.clock, users=login)
        self.app = create_app(self.view, BODY_BYTES, gate, self.accounts, secure=secure)
        self.app.testing = False

    def add(self, name: str, role: AccessRole, tenant: int | None = None) -> None:
        """There is a user of that name, who has chosen the usual password."""
        kept = QUICK.hash(PASSWORD)
        self.accounts.users.add(User(name, kept, role, tenant, False, False, self.clock.now_ms(), 0))  # noqa: FBT003

    def add_users(self) -> None:
        """There are all of `USERS`."""
        for name, (role, tenant) in USERS.items():
            self.add(name, role, tenant)

    def browser(self) -> Visitor:
        """Somebody who is not logged in yet."""
        return Visitor(self.app.test_client())

    def logged_in(self, name: str) -> Visitor:
        """A browser in which the user is logged in."""
        visitor = self.browser()
        assert visitor.log_in(name).status_code == 303
        return visitor

    def token(self, name: str, role: AccessRole) -> dict[str, str]:
        """The header by which a new token of the user is shown."""
        user = self.accounts.users.find(name)
        assert user is not None
        token = self.accounts.create_token(user, f"{role.value}-{self.clock.now_ms()}", role, 30)
        return {"Authorization": f"Bearer {token}"}

    def close(self) -> None:
        self.database.close()


class Visitor:
    """A browser as far as forms go."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def log_in(self, name: str, password: str = PASSWORD, **more: str) -> TestResponse:
        """What the login form is answered with."""
        return self.client.post("/login", data={"name": name, "password": password, **more})

    def proof(self, page: str = "/account") -> str:
        """What the page's forms carry."""
        found = re.search(
            r'name="csrf.token" (?:content|value)="([^"]*)"', self.client.get(page).get_data(as_text=True)
        )
        return found[1] if found else ""

    def send(self, address: str, method: str = "POST", **fields: Any) -> TestResponse:
        """A form of one of the console's pages was sent."""
        return self.client.open(address, method=method, data={"csrf_token": self.proof(), **fields})

    @property
    def cookie(self) -> str:
        """The session's cookie; empty without one."""
        found = self.client.get_cookie("cep_session")
        return found.value if found else ""


@contextmanager
def world_in(folder: Path, **settings: Any) -> Iterator[AccountWorld]:
    """A world, closed at the end."""
    world = AccountWorld(folder, **settings)
    try:
        yield world
    finally:
        world.close()
