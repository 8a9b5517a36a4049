"""Applications that tests share: nearly all the time of making one goes into its addresses and templates."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from cep_manager.manager_view import ManagerView
from cep_manager.web import create_app


class _Shown:
    """Stands for the view that the application shows now; an application that keeps something of it for itself fails,
    since there is none yet when it is made."""

    view: ManagerView | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)


class _Apps:
    """Applications by the length of their requests' bodies; one that is lent is nobody else's until its test ends."""

    def __init__(self) -> None:
        self._free: dict[int, list[tuple[Flask, _Shown]]] = defaultdict(list)
        self._lent: list[tuple[int, Flask, _Shown]] = []

    def lend(self, view: ManagerView, body_bytes: int) -> Flask:
        """An application that shows `view` until the test ends."""
        free = self._free[body_bytes]
        if not free:
            shown = _Shown()
            free.append((create_app(shown, body_bytes), shown))  # type: ignore[arg-type]
        app, shown = free.pop()
        shown.view = view
        self._lent.append((body_bytes, app, shown))
        return app

    def take_back(self) -> None:
        """The test has ended: what it was lent shows nothing any more."""
        for body_bytes, app, shown in self._lent:
            shown.view = None
            self._free[body_bytes].append((app, shown))
        self._lent.clear()


APPS = _Apps()


def shared_client(view: ManagerView, body_bytes: int) -> FlaskClient:
    """A client, new in every way, of an application that shows `view` and asks nobody for a token."""
    return APPS.lend(view, body_bytes).test_client()
