"""Answers to unknown paths, and to methods that a path does not support."""

from __future__ import annotations

import re

from flask import Flask
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.routing import RequestRedirect

from cep_common.errors import InputError
from cep_common.ids import SUPER_TENANT
from cep_common.web.requests import Request
from cep_worker.http.refusals import RefusedAnswer, http_refusal, refused_answer
from cep_worker.plans.streams import StreamDirectory

SOURCE_PATH = re.compile(r"(?P<before>(?:t/(?P<tenant>-?[0-9]{1,9})/)?)(?P<plan>[^/]+)/(?P<stream>[^/]+)", re.ASCII)
"""The path of sources without a `receiver.url`."""


def nothing_at(imported: StreamDirectory, path: str) -> InputError:
    """Return the error for a post to an unknown `path`, with the new path if the plan was renamed."""
    nothing = f"no stream accepts events at /{path}"
    found = SOURCE_PATH.fullmatch(path)
    if found is not None:
        tenant = int(found["tenant"] or SUPER_TENANT)
        if present := imported.present_name(tenant, found["plan"]):
            renamed = f"plan {found['plan']} was renamed, post to /{found['before']}{present}/{found['stream']}"
            return InputError("unknown-path", f"{nothing}: {renamed}")
    return InputError("unknown-path", f"{nothing}; use /events/<stream>")


class UnknownPaths:
    """Refuse requests to unknown paths, at a fraction of the application's cost.

    Otherwise scanners and mistyped addresses would occupy the application's threads. Belongs to the loop's thread of
    one server.
    """

    def __init__(self, app: Flask) -> None:
        """Read the routes of `app`."""
        self._routes = app.url_map.bind("")

    def answer(self, request: Request, imported: StreamDirectory) -> RefusedAnswer | None:
        """Return the answer to a request that matches no source, or None if the application answers it."""
        path, _, query = request.target.partition(b"?")
        if request.method == b"HEAD" or query or b"%" in path or not path.startswith(b"/"):
            return None
        text = path.decode("latin-1")
        try:
            endpoint, _ = self._routes.match(text, method=request.method.decode("latin-1"))
        except RequestRedirect:
            return None
        except (NotFound, MethodNotAllowed) as error:
            return http_refusal(error)
        if endpoint != "post_source" or request.method != b"POST":
            return None
        return refused_answer(nothing_at(imported, text[1:]))
