"""Names of plans: the rules, and default names."""

from __future__ import annotations

import hashlib
import re

from siddhi.errors import SiddhiError
from siddhi.language import ast
from siddhi.language.parser import parse
from siddhi.language.printer import print_app

USABLE = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.,&+@=!() -]{0,126}[A-Za-z0-9_.,&+@=!()-])?", re.ASCII)
"""Rules for names of topologies, which are used in addresses, files and metrics."""
ALLOWED = "letters, digits, blanks and any of _ - . , & + @ = ! ( ), no sign but '_' in front, at most 128 characters"
_HEADER = ("plan", "app")


def is_3x(app: ast.App) -> bool:
    """Return whether the app is an execution plan, which has a `@Plan:` annotation."""
    return any((one.namespace or "").casefold() == "plan" for one in app.annotations)


def written_name(app: ast.App) -> ast.Annotation | None:
    """Return the annotation that names the plan."""
    named = (one for one in app.annotations if one.name.casefold() == "name")
    return next((one for one in named if (one.namespace or "").casefold() in _HEADER), None)


def name_of_text(app: ast.App) -> str:
    """Return the name of a plan without one: the same for the same plan, however it is formatted."""
    return f"app_{hashlib.sha256(print_app(app).encode()).hexdigest()[:12]}"


def named_after(text: str, stem: str) -> str:
    """Return the plan in `text`, named after its file if it has no name of its own.

    The file's name begins with `stem`. Lines keep their numbers.
    """
    try:
        app = parse(text)
    except SiddhiError:
        return text
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", stem).strip("_.-")
    if written_name(app) is not None or not name:
        return text
    return f"@{'Plan' if is_3x(app) else 'app'}:name('{name[:128]}') {text}"
