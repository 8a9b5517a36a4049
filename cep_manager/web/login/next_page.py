"""Where a login leads to: only ever to a page of this console. Pure."""

from __future__ import annotations

import re

HOME = "/"

# One slash, no backslash (browsers take it for a slash), nothing that browsers drop from addresses.
_OWN_PATH = re.compile(r"/(?![/\\])[^\x00-\x20\x7f\\]*")
_NO_PAGES = ("/login", "/logout", "/api/", "/storm/", "/fragments/", "/static/", "/metrics")

LONGEST = 2_000


def safe_next(written: str) -> str:
    """Return the page that the untrusted text `written` asks for.

    The first page when it is none of ours.
    """
    if len(written) > LONGEST or not _OWN_PATH.fullmatch(written) or written.startswith(_NO_PAGES):
        return HOME
    return written


def is_page(path: str) -> bool:
    """Return whether the address is a page for people, not one for programs and scripts."""
    return not path.startswith(("/api/", "/storm/", "/fragments/", "/static/", "/metrics"))
