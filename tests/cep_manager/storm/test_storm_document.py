"""docs/storm-api.md and the API say the same."""

import re
from pathlib import Path

from manager_world import FakeView, World
from storm_calls import client_of

from cep_manager.plans.state import PlanState
from cep_manager.web.storm_api.blueprint import PREFIX

TEXT = (Path(__file__).parents[3] / "docs" / "storm-api.md").read_text(encoding="utf-8")
NAMES = {
    "<identifier>": "ID",
    "<path:name>": "NAME",
    "<wait>": "WAIT",
    "<percent>": "PERCENT",
    "<owner>": "OWNER",
    "<path:what>": "WHAT",
}


def test_every_call_is_listed_and_nothing_else() -> None:
    served = set()
    for rule in client_of(FakeView(World())).application.url_map.iter_rules():
        address = rule.rule.removeprefix(PREFIX)
        for written, name in NAMES.items():
            address = address.replace(written, name)
        actions = re.search(r"<any\(([^)]*)\):action>", address)
        for action in actions[1].split(", ") if actions else [""]:
            listed = address.replace(actions[0], action) if actions else address
            served |= {f"{method} {listed}" for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}}
    served = {call for call in served if not call.endswith(("<path:call>", "<path:filename>"))}
    assert set(re.findall(r"^\| `([A-Z]+ /\S*)` \|", TEXT, flags=re.MULTILINE)) == served


def test_every_state_of_a_plan_is_told_with_one_of_storms() -> None:
    told = dict(re.findall(r"^\| `([A-Z]+)` \| (.*) \|$", TEXT, flags=re.MULTILINE))
    assert told.keys() == {"ACTIVE", "INACTIVE", "REBALANCING", "KILLED"}
    words = set(re.findall(r"[a-z]+", " ".join(told.values())))
    assert {state.value for state in PlanState if state is not PlanState.KILLED} <= words
