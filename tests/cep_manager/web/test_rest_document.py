"""docs/rest.md, with its pages by subject, and the API say the same."""

import re
from pathlib import Path

from manager_world import FakeView, World

from cep_manager.monitoring.status import PlanStatus, TaskStatus, TopologyStatus
from cep_manager.plans.state import PlanState
from cep_manager.web.api.failures import HTTP_CODES, HTTP_STATUS
from cep_manager.web.app import create_app

DOCS = Path(__file__).parents[3] / "docs"
PAGES = (DOCS / "rest.md", *sorted((DOCS / "rest").glob("*.md")))
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_every_call_is_listed_and_nothing_else() -> None:
    app = create_app(FakeView(World()), 1_000)
    served = {
        f"{method} {re.sub('<(?:path:)?(.*?)>', lambda part: part[1].upper(), rule.rule.removeprefix('/api/v1'))}"
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/api/v1")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert set(re.findall(r"^\| `([A-Z]+ /\S*)` \|", TEXT, flags=re.MULTILINE)) == served


def test_every_failure_is_listed_with_its_status() -> None:
    listed = {
        (int(status), code) for status, code in re.findall(r"^\| (\d+) \| `([a-z-]+)` \|", TEXT, flags=re.MULTILINE)
    }
    known = {(status, error.code) for error, status in HTTP_STATUS.items()}
    common = {(status, code) for status, (code, _) in HTTP_CODES.items()}
    gate = {(401, "not-authenticated"), (403, "not-authorised"), (403, "unknown-host"), (429, "too-many-requests")}
    assert listed == known | common | gate | {
        (403, "cross-site"),
        (403, "csrf"),
        (403, "password-must-change"),
        (500, "internal"),
    }


def test_every_state_is_explained() -> None:
    listed = re.findall(r"^  \| `([a-z]+)` \| [a-z]", TEXT, flags=re.MULTILINE)
    assert listed == [state.value for state in PlanState]


def test_every_part_of_the_status_of_a_plan_is_told() -> None:
    told = (DOCS / "rest" / "status.md").read_text(encoding="utf-8").partition("## The live graph")[0]
    parts = {name for kind in (PlanStatus, TopologyStatus, TaskStatus) for name in kind.__struct_fields__}
    assert {name for name in parts if not re.search(rf"[`\"]{name}[`\"]", told)} == set()
