"""How the tests are spread over processes: what shares something stays together, and what takes long begins first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SHARING = {
    "running_system": (
        *("test_plan_life_cycle", "test_failures", "test_savepoints", "test_driver_supervision"),
        *("test_statistics_truth", "test_cluster_many_plans", "test_flights_system", "test_cli_live", "test_logs_live"),
        *("test_stored_tables_live", "test_kept_errors_live", "test_undeploy_live", "test_edit_live"),
        *("test_dead_web_hook", "test_listening_sockets", "test_kafka_transport_live", "test_idle_playback_live"),
        "test_sp_topologies_live",
    ),
    "cluster_system": (
        "test_cluster_answers",
        "test_cluster_sharing",
        "test_shared_state_live",
        "test_standalone_cluster",
    ),
    "manager_pair": ("test_two_manager_processes", "test_busy_host"),
}
"""What takes long to start, and the files whose tests have it: one process runs them all, and starts it once."""

LONG = (
    *("running_system", "test_driver_executors", "test_simulation", "cluster_system", "test_chaos"),
    *(
        "manager_pair",
        "test_cluster_package",
        "test_cluster_two_hosts",
        "test_seed_app_kills_live",
        "test_time_live",
        "test_blocked_sink",
        "test_shell_browser",
    ),
)
"""What takes longest begins first, so that no process is left with it when the others are done."""

GROUPS = {file: shared for shared, files in SHARING.items() for file in files}


def group_of(file: Path) -> str:
    """What stays in one process: a file, or all files that share something."""
    return GROUPS.get(file.stem, file.stem)


class Groups(LoadFileScheduling):
    """Spreads groups of files; the last process takes them from the end.

    What begins first starts systems and waits for them much of the time. What comes last computes, and fills that time.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(Path(super()._split_scope(nodeid)))

    def _assign_work_unit(self, node: WorkerController) -> None:
        if len(self.nodes) > 1 and node is self.nodes[-1]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    """`--dist loadfile` spreads groups, in the order below with `--no-loadscope-reorder`."""
    return Groups(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are spread begin with those of `LONG`, then come those with real processes, the largest groups first.

    Raises UsageError when a file shares something that is not among those that do.
    """
    for item in items:
        for shared in SHARING.keys() & set(getattr(item, "fixturenames", ())):
            if group_of(item.path) != shared:
                raise pytest.UsageError(f"{item.path} uses {shared}: tests/spreading.py should name it in SHARING")
    if not hasattr(config, "workerinput"):
        return  # one process runs all, in the usual order
    size = Counter(group_of(item.path) for item in items)
    real = {group_of(item.path) for item in items if any(map(item.get_closest_marker, ("spark", "cluster")))}

    def place(item: pytest.Item) -> tuple[int, bool, int, str]:
        group = group_of(item.path)
        return LONG.index(group) if group in LONG else len(LONG), group not in real, -size[group], group

    items.sort(key=place)
