"""What tests ask of every page: that people who do not see it, or use no mouse, can use it as well."""

from __future__ import annotations

from pathlib import Path

from browser import Browser

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
SCHEMES = ("light", "dark")
GRAVE = ("serious", "critical")


def set_scheme(browser: Browser, scheme: str) -> None:
    """The browser's reader likes `scheme`: light or dark."""
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


def grave_findings(browser: Browser) -> list[str]:
    """What axe-core finds in the present page that keeps somebody from using it: rule and elements."""
    # Evaluated through the debugging pipe: the page's own policy lets no other script in.
    browser.call("Runtime.evaluate", expression=AXE)
    found = browser.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map("
        "({id, impact, nodes}) => ({id, impact, nodes: nodes.map((node) => `${node.html} ${node.failureSummary}`)})))"
    )
    return [f"{one['id']}: {node[:600]}" for one in found if one["impact"] in GRAVE for node in one["nodes"]]
