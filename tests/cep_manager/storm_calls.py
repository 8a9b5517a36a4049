"""The calls of Storm's REST API whose answers are kept in `storm_golden`. Run as a program, this writes them again:
look at the difference before you keep it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from manager_world import FakeView
from storm_world import ID, running_view

from cep_manager.web.storm_api.blueprint import storm_blueprint

GOLDEN = Path(__file__).parent / "storm_golden"
PREFIX = "/storm/api/v1"
CALLS = {
    "cluster_summary": "/cluster/summary",
    "cluster_configuration": "/cluster/configuration",
    "nimbus_summary": "/nimbus/summary",
    "supervisor_summary": "/supervisor/summary",
    "supervisor": "/supervisor?host=10.0.0.2",
    "history_summary": "/history/summary",
    "owner_resources": "/owner-resources",
    "owner_resources_of_one": "/owner-resources/-1234",
    "topology_summary": "/topology/summary",
    "topology": f"/topology/{ID}",
    "topology_in_ten_minutes": f"/topology/{ID}?window=600&sys=false",
    "topology_workers": f"/topology-workers/{ID}",
    "spout": f"/topology/{ID}/component/EventReceiver?window=600",
    "bolt": f"/topology/{ID}/component/storms?window=600",
    "metrics": f"/topology/{ID}/metrics?window=600",
    "visualization": f"/topology/{ID}/visualization?window=600",
    "visualization_init": f"/topology/{ID}/visualization-init",
    "lag": f"/topology/{ID}/lag",
    "logconfig": f"/topology/{ID}/logconfig",
}


def client_of(view: FakeView) -> FlaskClient:
    """A client of the API alone."""
    app = Flask("storm")
    app.register_blueprint(storm_blueprint(view))
    return app.test_client()


def written(answer: Any) -> str:
    """An answer as it is kept."""
    return json.dumps(answer, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    client = client_of(running_view())
    for name, call in CALLS.items():
        text = written(client.get(PREFIX + call).get_json())
        (GOLDEN / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
