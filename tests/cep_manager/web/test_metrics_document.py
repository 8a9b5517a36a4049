"""docs/operations/metrics.md lists every metric of the manager, with its labels."""

import re
from pathlib import Path

from node_world import two_nodes
from prometheus_client.parser import text_string_to_metric_families
from storm_world import running_view

from cep_manager.web.app import create_app

TEXT = (Path(__file__).parents[3] / "docs" / "operations" / "metrics.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("| manager | labels | is |")[2].partition("\n\n")[0]


def test_the_managers_metrics_are_listed_and_no_others() -> None:
    listed: dict[str, set[str]] = {}
    labels: set[str] = set()
    for names, written in re.findall(r"^\| (`cep_.*`) \| (.*?) ?\| .* \|$", TABLE, flags=re.MULTILINE):
        if written != "the same":
            labels = {label for label in written.split(", ") if label}
        listed |= {name.strip("`").removesuffix("_total"): labels for name in names.split(", ")}
    view = running_view()
    view.nodes = two_nodes()
    text = create_app(view, 1_000).test_client().get("/metrics").text
    told = {
        family.name: {label for sample in family.samples for label in sample.labels} - {"le"}
        for family in text_string_to_metric_families(text)
        if family.name.startswith("cep_")
    }
    assert listed == told
