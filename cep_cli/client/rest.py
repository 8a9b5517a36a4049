"""The manager's REST API as the command line uses it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from cep_cli.client.connection import ManagerConnection
from cep_cli.errors import CommandRefusedError
from cep_common.ids import SUPER_TENANT

PREVIEW_TIMEOUT_S = 620
"""Seconds for a preview of an edit, longer than the manager's limit (`trial.timeout_ms`)."""
RULES_TIMEOUT_S = 1_800
"""Seconds for a rule set, whose plans are compiled one after the other in 10 ms to 5 s each."""


class ManagerClient:
    """Client of the manager's REST API.

    It calls the manager at `url`, or the one that this manager names as the leader; while no manager leads it waits up
    to `LEADER_WITHIN_S`. One thread at a time may use it. Methods return the decoded JSON answer (see docs/rest.md)
    unless they say otherwise.

    All methods raise:
        PeerError: no manager answers, or its answer cannot be used. A change that was sent may have been made then.
        CommandRefusedError: the manager refused the request; `status` is the HTTP status and `details` the problems.
    """

    def __init__(
        self, url: str, tenant: int = SUPER_TENANT, token: str = "", basic: tuple[str, str] | None = None
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Args:
            url: `http://host:port` or `https://host:port` of a manager; several are separated by commas and tried in
                order.
            tenant: The tenant on whose behalf to call.
            token: Access token; empty: none.
            basic: Name and password, used where there is no token.
        """
        self._connection = ManagerConnection(url, tenant, token, basic)

    @property
    def url(self) -> str:
        """Return the manager that answered last, `http://host:port`."""
        return self._connection.url

    @property
    def tenant(self) -> int:
        """Return the tenant on whose behalf the client calls."""
        return self._connection.tenant

    @property
    def token(self) -> str:
        """Return the access token; empty without one."""
        return self._connection.token

    def deploy(self, text: str, replace: bool, savepoint: str = "") -> Any:
        """Deploy the plan in `text` and return the outcome.

        Args:
            text: The plan.
            replace: Replace a deployed plan of the same name; otherwise the deployment is refused.
            savepoint: Name of the savepoint to start from; empty: start from the plan's own state, if any.
        """
        begin = {"from": savepoint} if savepoint else {}
        return self._connection.call("POST", "/plans", body=text.encode(), replace=str(replace).lower(), **begin)

    def deploy_renamed(self, plan: str, text: str, savepoint: str = "") -> Any:
        """Rename `plan` to the name in `text`, deploy that text and return the outcome.

        Args:
            plan: The present name.
            text: The plan under its new name.
            savepoint: As for `deploy`.
        """
        begin = {"from": savepoint} if savepoint else {}
        return self._connection.call("PUT", f"/plans/{quote(plan)}", body=text.encode(), rename="true", **begin)

    def preview_edit(self, plan: str, text: str) -> Any:
        """Return which state of `plan` would be kept if `text` replaced it, without deploying anything.

        Takes up to `PREVIEW_TIMEOUT_S`.

        Args:
            plan: Name of the plan.
            text: A plan in SiddhiQL.
        """
        path = f"/plans/{quote(plan)}/edit-preview"
        return self._connection.request("POST", path, text.encode(), {}, PREVIEW_TIMEOUT_S)

    def explain(self, plan: str) -> Any:
        """Explain how the engine runs the queries of `plan`.

        Args:
            plan: Name of the plan.
        """
        return self._connection.request("GET", f"/plans/{quote(plan)}/explanation", None, {}, PREVIEW_TIMEOUT_S)

    def act(self, plan: str, action: str, **body: Any) -> Any:
        """Run an action on the plan and return its outcome.

        Args:
            plan: Name of the plan.
            action: `activate`, `deactivate`, `restart`, `rebalance`, `rename`, `trace`,
                `statistics-level` or `release`.
            body: Parameters of the action.
        """
        return self._connection.call(
            "POST", f"/plans/{quote(plan)}/{action}", body=msgspec.json.encode(body) if body else None
        )

    def restart(self, plan: str, savepoint: str = "") -> Any:
        """Restart the plan, from `savepoint` if one is named, and return the outcome.

        Args:
            plan: Name of the plan.
            savepoint: Name of the savepoint; empty for the newest checkpoint.
        """
        begin = {"from": savepoint} if savepoint else {}
        return self._connection.call("POST", f"/plans/{quote(plan)}/restart", body=None, **begin)

    def undeploy(self, plan: str, discard: bool = False) -> Any:
        """Undeploy the plan and return the outcome.

        Args:
            plan: Name of the plan.
            discard: Drop the events that wait, rather than process them first.
        """
        return self._connection.call("DELETE", f"/plans/{quote(plan)}", discard=str(discard).lower())

    def deploy_rules(
        self, name: str, files: list[dict[str, str]], revision: str = "", dry_run: bool = False, remove: bool = True
    ) -> Any:
        """Deploy, change and undeploy plans so that the rule set equals `files`, as one change.

        Args:
            name: Name of the rule set.
            files: Each with `file`, its path within the folder, and `text`, the plan in it.
            revision: Version of the files, to be shown with the rule set.
            dry_run: Only report what would change.
            remove: Undeploy plans whose files have gone.

        Returns:
            The report of all changes.

        Raises:
            CommandRefusedError: nothing was changed; the report is in its details.
        """
        body = msgspec.json.encode({"files": files, "revision": revision})
        return self._rules("PUT", name, body, dry_run=_flag(dry_run), remove=_flag(remove))

    def remove_rules(self, name: str, dry_run: bool) -> Any:
        """Undeploy all plans of the rule set and return the report.

        Args:
            name: Name of the rule set.
            dry_run: Only report what would change.

        Raises:
            CommandRefusedError: nothing was changed; the report is in its details.
        """
        return self._rules("DELETE", name, None, dry_run=_flag(dry_run))

    def rule_set(self, name: str) -> Any:
        """Return the deployed plans of a rule set.

        Args:
            name: Its name.
        """
        return self._connection.call("GET", f"/rule-sets/{quote(name)}")

    def _rules(self, method: str, name: str, body: bytes | None, **parameters: str) -> Any:
        return self._connection.request(method, f"/rule-sets/{quote(name)}", body, parameters, RULES_TIMEOUT_S)

    def samples(self, plan: str, stage: str = "") -> Any:
        """Return the sampling in progress of the plan, or of one of its stages, and the samples.

        Args:
            plan: Name of the plan.
            stage: Name of the stage; empty for all.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}/samples", component=stage)

    def query(self, plan: str, query: str, limit: int) -> Any:
        """Run an on-demand query on a table, named window or aggregation of the running plan.

        Args:
            plan: Name of the plan.
            query: The query in SiddhiQL.
            limit: How many rows to return at most.
        """
        body = msgspec.json.encode({"query": query, "limit": limit})
        return self._connection.call("POST", f"/plans/{quote(plan)}/query", body=body)

    def scaling(self, plan: str) -> Any:
        """Return the plan's stages whose number of instances follows the load, and their history.

        Args:
            plan: Name of the plan.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}/scaling")

    def checkpoints(self, plan: str) -> Any:
        """Return the plan's newest checkpoints.

        Args:
            plan: Name of the plan.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}/checkpoints")

    def exceptions(self, plan: str | None) -> Any:
        """Return the errors of the plan, or with None of all plans of the tenant.

        Args:
            plan: Name of the plan.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}/exceptions" if plan else "/exceptions")

    def failed_events(self, plan: str, limit: int) -> Any:
        """Return at most `limit` entries of the plan's failed events from workers.

        Args:
            plan: Name of the plan.
            limit: How many entries at most.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}/errors", limit=str(limit))

    def set_aside(self) -> Any:
        """Return the data of missing plans that workers have set aside."""
        return self._connection.call("GET", "/wal")

    def restore_aside(self, id_: str) -> Any:
        """Restore the data that is set aside as `id_` and return the outcome.

        Args:
            id_: Its id, as in the list.
        """
        return self._connection.call("POST", f"/wal/{quote(id_)}/restore")

    def discard_aside(self, id_: str) -> Any:
        """Delete the data that is set aside as `id_` and return the outcome.

        Args:
            id_: Its id, as in the list.
        """
        return self._connection.call("POST", f"/wal/{quote(id_)}/discard")

    def adopt_worker(self, worker: str) -> Any:
        """Make a worker of another system join this one and return the outcome.

        Args:
            worker: Name of the worker.
        """
        return self._connection.call("POST", f"/workers/{quote(worker)}/adopt")

    def replay_errors(self, plan: str, choice: dict[str, Any]) -> Any:
        """Replay failed events at the query, sink or source where they failed, and return the outcome.

        Args:
            plan: Name of the plan.
            choice: Which entries; see `docs/rest.md`.
        """
        return self._connection.call("POST", f"/plans/{quote(plan)}/errors/replay", body=msgspec.json.encode(choice))

    def discard_errors(self, plan: str, choice: dict[str, Any]) -> Any:
        """Delete failed events and return how many entries are gone; `choice` as for `replay_errors`.

        Args:
            plan: Name of the plan.
            choice: Which entries; see `replay_errors`.
        """
        return self._connection.call("POST", f"/plans/{quote(plan)}/errors/discard", body=msgspec.json.encode(choice))

    def overview(self) -> Any:
        """Return the overview of the system, with its alerts."""
        return self._connection.call("GET", "/overview")

    def workers(self) -> Any:
        """Return all workers."""
        return self._connection.call("GET", "/workers")

    def clear_checkpoints(self, plan: str) -> Any:
        """Order the removal of the plan's checkpoints, but not its savepoints.

        Args:
            plan: Name of the plan.
        """
        return self._connection.call("DELETE", f"/plans/{quote(plan)}/checkpoints")

    def operations(self) -> list[Any]:
        """Return the newest long actions, newest first."""
        found: list[Any] = self._connection.call("GET", "/operations")["operations"]
        return found

    def operation(self, operation: str) -> Any:
        """Return the progress of a long action.

        Args:
            operation: Id of the operation.
        """
        return self._connection.call("GET", f"/operations/{quote(operation, safe='')}")

    def savepoints(self, plan: str) -> list[Any]:
        """Return the plan's savepoints, oldest first.

        Args:
            plan: Name of the plan.
        """
        savepoints: list[Any] = self._connection.call("GET", f"/plans/{quote(plan)}/savepoints")["savepoints"]
        return savepoints

    def take_savepoint(self, plan: str, name: str) -> Any:
        """Begin a savepoint and return it; `savepoints` shows its outcome.

        Args:
            plan: Name of the plan.
            name: Name of the savepoint; empty: named after the time.
        """
        body = msgspec.json.encode({"name": name})
        return self._connection.call("POST", f"/plans/{quote(plan)}/savepoints", body=body)

    def delete_savepoint(self, plan: str, name: str) -> None:
        """Order the removal of a savepoint.

        Args:
            plan: Name of the plan.
            name: Its name.
        """
        self._connection.call("DELETE", f"/plans/{quote(plan)}/savepoints/{quote(name)}")

    def plans(self) -> list[Any]:
        """Return every plan of the tenant with its status."""
        plans: list[Any] = self._connection.call("GET", "/plans")["plans"]
        return plans

    def plan(self, plan: str) -> Any:
        """Return one plan with its text and status.

        Args:
            plan: Name of the plan.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}")

    def child_apps(self, plan: str) -> Any:
        """Return what each instance of the plan's execution groups runs.

        Args:
            plan: Name of the plan.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}/apps")

    def topology(self, plan: str) -> Any:
        """Return the plan's live graph.

        Args:
            plan: Name of the plan.
        """
        return self._connection.call("GET", f"/plans/{quote(plan)}/topology")

    def nodes(self) -> Any:
        """Return the two nodes of `cep node`."""
        return self._connection.call("GET", "/nodes")["nodes"]

    def switch_nodes(self) -> Any:
        """Switch over from the active node to the other one."""
        return self._connection.call("POST", "/nodes/switch")

    def restart_nodes(self) -> Any:
        """Restart both nodes, one after the other."""
        return self._connection.call("POST", "/nodes/restart")["nodes"]

    def order_node(self, name: str, action: str) -> Any:
        """Restart a node, or shut it down: `action` is `restart` or `shutdown`.

        Args:
            name: Its name.
            action: `restart` or `shutdown`.
        """
        return self._connection.call("POST", f"/nodes/{quote(name)}/{action}")

    def cluster(self) -> Any:
        """Return the processes of the system."""
        return self._connection.call("GET", "/cluster")

    def critical_alerts(self) -> list[Any]:
        """Return critical alerts about workers and managers, not plans; empty for a token that may not see them."""
        try:
            found: list[Any] = self.overview()["alerts"]
        except CommandRefusedError:
            return []
        return [one for one in found if one["severity"] == "critical" and one["subject"] in ("worker", "manager")]

    def managers(self) -> list[Any]:
        """Return all managers and which one leads; empty for a token that may not see the system."""
        try:
            managers: list[Any] = self.cluster().get("managers", [])
        except CommandRefusedError:
            return []
        return managers

    def account(self) -> Any:
        """Return the caller's account as the manager sees it."""
        return self._connection.call("GET", "/account")

    def change_password(self, former: str, password: str) -> None:
        """Change the caller's password and end all sessions of the caller.

        Args:
            former: The present password.
            password: The new password.
        """
        self._connection.call(
            "POST", "/account/password", body=msgspec.json.encode({"former": former, "password": password})
        )

    def make_token(self, name: str, role: str, days: int) -> str:
        """Create a personal token of the caller and return it; it cannot be read again later.

        Args:
            name: Name of the token.
            role: Its role, with at most the caller's rights.
            days: How long it is valid.
        """
        body = msgspec.json.encode({"name": name, "role": role, "days": days})
        return str(self._connection.call("POST", "/account/tokens", body=body)["token"])

    def revoke_token(self, name: str) -> None:
        """Revoke a personal token of the caller.

        Args:
            name: Its name.
        """
        self._connection.call("DELETE", f"/account/tokens/{quote(name, safe='')}")

    def processes(self) -> list[Any]:
        """Return every process of the system."""
        processes: list[Any] = self._connection.call("GET", "/processes")["processes"]
        return processes

    def log(self, process: str, **wanted: str) -> Any:
        """Return log records of a process; `wanted` are the query parameters of the call (see docs/rest.md).

        Args:
            process: Id of the process, as in the list of processes.
            **wanted: Query parameters of the call; see `docs/rest.md`.
        """
        return self._connection.call("GET", f"/processes/{quote(process, safe='')}/log", None, **wanted)

    def search_logs(self, **wanted: str) -> Any:
        """Return the newest log records of all processes; `wanted` as for `log`."""
        return self._connection.call("GET", "/log", None, **wanted)

    def users(self) -> list[Any]:
        """Return all users, where the manager has accounts."""
        users: list[Any] = self._connection.call("GET", "/users")["users"]
        return users

    def configuration(self, process: str) -> Any:
        """Return the configuration that a process runs with.

        Args:
            process: Id of the process, as in the list of processes.
        """
        return self._connection.call("GET", f"/processes/{quote(process, safe='')}/configuration")

    def is_healthy(self) -> bool:
        """Return whether the manager answers and its control loop runs; raises nothing."""
        return self._connection.is_healthy()


def _flag(flag: bool) -> str:
    return str(flag).lower()
