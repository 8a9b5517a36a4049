"""The manager's REST API as the command line uses it."""

from __future__ import annotations

import base64
import time
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import requests
from urllib3.exceptions import NewConnectionError

from cep_cli.errors import CommandRefusedError
from cep_common.errors import PeerError
from cep_common.ids import SUPER_TENANT
from cep_common.security.tokens import bearer
from cep_common.web.client import Answer, AnswerError, WebClient

TIMEOUT_S = 30
MOST_ANSWER_BYTES = 64 * 2**20
HUNG_S = 2.0
"""With several managers to choose from, one that does not say within this time that it is up is passed over."""
PREVIEW_TIMEOUT_S = 620
"""Longer than a manager lets a preview of an edit take (`trial.timeout_ms`)."""
RULES_TIMEOUT_S = 1_800
"""Plans of a rule set are compiled one after the other, some 10 ms to 5 s each."""
LEADER_WITHIN_S, AGAIN_S = 6.0, 0.2
"""How long a command waits for a manager to lead, and how often it asks. A standby takes over in less than 4 s."""

SENT_ON, UNAVAILABLE = 307, 503


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
        self._shown = bearer(token) if token or basic is None else {"Authorization": _basic(*basic)}
        self._urls = tuple(one.strip().rstrip("/") for one in url.split(","))
        self.url = self._urls[0]
        self.tenant = tenant
        self.token = token

    def deploy(self, text: str, replace: bool, savepoint: str = "") -> Any:
        """Deploy the plan in `text` and return the outcome.

        Args:
            text: The plan.
            replace: Change a deployed plan of the same name, rather than be refused.
            savepoint: Name of the savepoint to start from; empty: start from the plan's own state, if any.
        """
        begin = {"from": savepoint} if savepoint else {}
        return self._call("POST", "/plans", body=text.encode(), replace=str(replace).lower(), **begin)

    def deploy_renamed(self, plan: str, text: str, savepoint: str = "") -> Any:
        """Rename `plan` to the name in `text`, deploy that text and return the outcome.

        Args:
            plan: The present name.
            text: The plan under its new name.
            savepoint: As for `deploy`.
        """
        begin = {"from": savepoint} if savepoint else {}
        return self._call("PUT", f"/plans/{quote(plan)}", body=text.encode(), rename="true", **begin)

    def preview_edit(self, plan: str, text: str) -> Any:
        """Return which state of `plan` would be kept if `text` replaced it; nothing is deployed.

        Takes up to `PREVIEW_TIMEOUT_S`.
        """
        path = f"/plans/{quote(plan)}/edit-preview"
        return self._do("POST", path, text.encode(), {}, PREVIEW_TIMEOUT_S)

    def explain(self, plan: str) -> Any:
        """Explain how the engine runs the queries of `plan`."""
        return self._do("GET", f"/plans/{quote(plan)}/explanation", None, {}, PREVIEW_TIMEOUT_S)

    def act(self, plan: str, action: str, **body: Any) -> Any:
        """Run an action on the plan and return its outcome.

        Args:
            plan: Name of the plan.
            action: `activate`, `deactivate`, `restart`, `rebalance`, `rename`, `trace`,
                `statistics-level` or `release`.
            body: Parameters of the action.
        """
        return self._call("POST", f"/plans/{quote(plan)}/{action}", body=msgspec.json.encode(body) if body else None)

    def restart(self, plan: str, savepoint: str = "") -> Any:
        """Restart the plan, from `savepoint` if one is named, and return the outcome."""
        begin = {"from": savepoint} if savepoint else {}
        return self._call("POST", f"/plans/{quote(plan)}/restart", body=None, **begin)

    def undeploy(self, plan: str, discard: bool = False) -> Any:
        """Undeploy the plan and return the outcome.

        Args:
            plan: Name of the plan.
            discard: Drop the events that wait, rather than process them first.
        """
        return self._call("DELETE", f"/plans/{quote(plan)}", discard=str(discard).lower())

    def deploy_rules(
        self, name: str, files: list[dict[str, str]], revision: str = "", dry_run: bool = False, remove: bool = True
    ) -> Any:
        """Deploy, change and undeploy plans so that those of the rule set are what `files` say, as one change.

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
        """Return the deployed plans of a rule set."""
        return self._call("GET", f"/rule-sets/{quote(name)}")

    def _rules(self, method: str, name: str, body: bytes | None, **parameters: str) -> Any:
        return self._do(method, f"/rule-sets/{quote(name)}", body, parameters, RULES_TIMEOUT_S)

    def samples(self, plan: str, stage: str = "") -> Any:
        """Return the sampling in progress of the plan, or of one of its stages, and the samples."""
        return self._call("GET", f"/plans/{quote(plan)}/samples", component=stage)

    def query(self, plan: str, query: str, limit: int) -> Any:
        """Run an on-demand query on a table, named window or aggregation of the running plan.

        Args:
            plan: Name of the plan.
            query: The query in SiddhiQL.
            limit: How many rows to return at most.
        """
        body = msgspec.json.encode({"query": query, "limit": limit})
        return self._call("POST", f"/plans/{quote(plan)}/query", body=body)

    def checkpoints(self, plan: str) -> Any:
        """Return the plan's newest checkpoints."""
        return self._call("GET", f"/plans/{quote(plan)}/checkpoints")

    def exceptions(self, plan: str | None) -> Any:
        """Return the errors of the plan, or with None of all plans of the tenant."""
        return self._call("GET", f"/plans/{quote(plan)}/exceptions" if plan else "/exceptions")

    def failed_events(self, plan: str, limit: int) -> Any:
        """Return at most `limit` entries of failed events of the plan that workers keep."""
        return self._call("GET", f"/plans/{quote(plan)}/errors", limit=str(limit))

    def set_aside(self) -> Any:
        """Return the data that workers have set aside of plans that are missing."""
        return self._call("GET", "/wal")

    def restore_aside(self, id_: str) -> Any:
        """Restore the data that is set aside as `id_` and return the outcome."""
        return self._call("POST", f"/wal/{quote(id_)}/restore")

    def discard_aside(self, id_: str) -> Any:
        """Delete the data that is set aside as `id_` and return the outcome."""
        return self._call("POST", f"/wal/{quote(id_)}/discard")

    def adopt_worker(self, worker: str) -> Any:
        """Make a worker of another system join this one and return the outcome."""
        return self._call("POST", f"/workers/{quote(worker)}/adopt")

    def replay_errors(self, plan: str, choice: dict[str, Any]) -> Any:
        """Send failed events again to where they failed, and return the outcome.

        Args:
            plan: Name of the plan.
            choice: Which entries; see `docs/rest.md`.
        """
        return self._call("POST", f"/plans/{quote(plan)}/errors/replay", body=msgspec.json.encode(choice))

    def discard_errors(self, plan: str, choice: dict[str, Any]) -> Any:
        """Delete failed events and return how many entries are gone; `choice` as for `replay_errors`."""
        return self._call("POST", f"/plans/{quote(plan)}/errors/discard", body=msgspec.json.encode(choice))

    def overview(self) -> Any:
        """Return the overview of the system, with its alerts."""
        return self._call("GET", "/overview")

    def workers(self) -> Any:
        """Return all workers."""
        return self._call("GET", "/workers")

    def clear_checkpoints(self, plan: str) -> Any:
        """Order the removal of the plan's checkpoints, but not its savepoints."""
        return self._call("DELETE", f"/plans/{quote(plan)}/checkpoints")

    def operations(self) -> list[Any]:
        """Return the newest long actions, newest first."""
        found: list[Any] = self._call("GET", "/operations")["operations"]
        return found

    def operation(self, operation: str) -> Any:
        """Return the progress of a long action."""
        return self._call("GET", f"/operations/{quote(operation, safe='')}")

    def savepoints(self, plan: str) -> list[Any]:
        """Return the plan's savepoints, oldest first."""
        savepoints: list[Any] = self._call("GET", f"/plans/{quote(plan)}/savepoints")["savepoints"]
        return savepoints

    def take_savepoint(self, plan: str, name: str) -> Any:
        """Begin a savepoint and return it; `savepoints` shows its outcome.

        Args:
            plan: Name of the plan.
            name: Name of the savepoint; empty: named after the time.
        """
        body = msgspec.json.encode({"name": name})
        return self._call("POST", f"/plans/{quote(plan)}/savepoints", body=body)

    def delete_savepoint(self, plan: str, name: str) -> None:
        """Order the removal of a savepoint."""
        self._call("DELETE", f"/plans/{quote(plan)}/savepoints/{quote(name)}")

    def plans(self) -> list[Any]:
        """Return every plan of the tenant with its status."""
        plans: list[Any] = self._call("GET", "/plans")["plans"]
        return plans

    def plan(self, plan: str) -> Any:
        """Return one plan with its text and status."""
        return self._call("GET", f"/plans/{quote(plan)}")

    def child_apps(self, plan: str) -> Any:
        """Return what each instance of the plan's execution groups runs."""
        return self._call("GET", f"/plans/{quote(plan)}/apps")

    def topology(self, plan: str) -> Any:
        """Return the plan's live graph."""
        return self._call("GET", f"/plans/{quote(plan)}/topology")

    def nodes(self) -> Any:
        """Return the two nodes of `cep node`."""
        return self._call("GET", "/nodes")["nodes"]

    def switch_nodes(self) -> Any:
        """Make the active node hand over to the other one."""
        return self._call("POST", "/nodes/switch")

    def restart_nodes(self) -> Any:
        """Restart both nodes, one after the other."""
        return self._call("POST", "/nodes/restart")["nodes"]

    def order_node(self, name: str, action: str) -> Any:
        """Restart a node, or shut it down: `action` is `restart` or `shutdown`."""
        return self._call("POST", f"/nodes/{quote(name)}/{action}")

    def cluster(self) -> Any:
        """Return the processes of the system."""
        return self._call("GET", "/cluster")

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
        return self._call("GET", "/account")

    def change_password(self, former: str, password: str) -> None:
        """Change the caller's password and end all sessions of the caller."""
        self._call("POST", "/account/password", body=msgspec.json.encode({"former": former, "password": password}))

    def make_token(self, name: str, role: str, days: int) -> str:
        """Create a personal token of the caller and return it; it cannot be read again later.

        Args:
            name: Name of the token.
            role: Its role, with at most the caller's rights.
            days: How long it is valid.
        """
        body = msgspec.json.encode({"name": name, "role": role, "days": days})
        return str(self._call("POST", "/account/tokens", body=body)["token"])

    def revoke_token(self, name: str) -> None:
        """Revoke a personal token of the caller."""
        self._call("DELETE", f"/account/tokens/{quote(name, safe='')}")

    def processes(self) -> list[Any]:
        """Return every process of the system."""
        processes: list[Any] = self._call("GET", "/processes")["processes"]
        return processes

    def log(self, process: str, **wanted: str) -> Any:
        """Return log records of a process; `wanted` are the query parameters of the call (see docs/rest.md)."""
        return self._call("GET", f"/processes/{quote(process, safe='')}/log", None, **wanted)

    def search_logs(self, **wanted: str) -> Any:
        """Return the newest log records of all processes; `wanted` as for `log`."""
        return self._call("GET", "/log", None, **wanted)

    def users(self) -> list[Any]:
        """Return all users, where the manager has accounts."""
        users: list[Any] = self._call("GET", "/users")["users"]
        return users

    def configuration(self, process: str) -> Any:
        """Return the configuration that a process runs with."""
        return self._call("GET", f"/processes/{quote(process, safe='')}/configuration")

    def is_healthy(self) -> bool:
        """Return whether the manager answers and its control loop runs; raises nothing."""
        try:
            with WebClient() as client:
                return client.request("GET", f"{self.url}/api/v1/health", timeout_s=TIMEOUT_S).status == 200
        except requests.RequestException:
            return False

    def _call(self, method: str, path: str, body: bytes | None = None, **parameters: str) -> Any:
        return self._do(method, path, body, parameters, TIMEOUT_S)

    def _do(self, method: str, path: str, body: bytes | None, parameters: dict[str, str], timeout_s: float) -> Any:
        deadline = time.monotonic() + LEADER_WITHIN_S
        answer = self._ask(method, path, body, parameters, timeout_s)
        while _is_of_no_leader(answer) and time.monotonic() < deadline:
            if answer.status == SENT_ON:
                self._turn_to(answer.headers["Location"])
            else:
                time.sleep(AGAIN_S)
            answer = self._ask(method, path, body, parameters, timeout_s)
        if answer.status >= 300:
            raise CommandRefusedError(_refusal(answer), answer.status, _details(answer))
        try:
            return answer.json() if answer.content() else None
        except AnswerError as error:
            raise PeerError(f"the answer of the manager at {self.url} cannot be used: {error}") from error

    def _ask(self, method: str, path: str, body: bytes | None, parameters: dict[str, str], timeout_s: float) -> Answer:
        """Return the answer of the manager that was asked last, or of another one when that one does not answer."""
        problem: requests.RequestException | None = None
        for url in dict.fromkeys((self.url, *self._urls)):
            may_be_done = False
            try:
                with WebClient(MOST_ANSWER_BYTES) as client:
                    if len(self._urls) > 1:
                        client.request("GET", f"{url}/api/v1/health", timeout_s=HUNG_S)
                    may_be_done = method != "GET"
                    answer = client.request(
                        method,
                        f"{url}/api/v1{path}",
                        params={"tenant": str(self.tenant), **parameters},
                        data=body,
                        headers={"Content-Type": "text/plain; charset=utf-8", **self._shown},
                        timeout_s=timeout_s,
                    )
            except requests.RequestException as error:
                problem = error
                if may_be_done and not _was_not_sent(error):
                    break
                continue
            self.url = url
            return answer
        where = ", ".join(dict.fromkeys((self.url, *self._urls)))
        raise PeerError(
            f"no manager answers at {where} ({type(problem).__name__}); start one with `cep up` or name it with "
            "--manager"
        ) from problem

    def _turn_to(self, location: str) -> None:
        """Call the manager at `location` from now on.

        Raises:
            CommandRefusedError: that would send a token unencrypted.
        """
        there = urlsplit(location)
        if self._shown and self.url.startswith("https:") and there.scheme != "https":
            raise CommandRefusedError(
                f"{self.url} names {there.scheme}://{there.netloc} as the leader, which is not HTTPS"
            )
        if self.url == f"{there.scheme}://{there.netloc}":
            time.sleep(AGAIN_S)
        self.url = f"{there.scheme}://{there.netloc}"


def _basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _is_of_no_leader(answer: Answer) -> bool:
    """Return whether a manager that does not lead answered."""
    if answer.status not in (SENT_ON, UNAVAILABLE):
        return False
    try:
        return bool(answer.json()["code"] == "not-leader")
    except (AnswerError, KeyError, TypeError):
        return False


def _was_not_sent(error: requests.RequestException) -> bool:
    """Return whether the connection was refused, so that the request has reached no manager."""
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", None), NewConnectionError)


def _flag(flag: bool) -> str:
    return str(flag).lower()


def _details(answer: Answer) -> dict[str, Any]:
    try:
        return dict(answer.json().get("details") or {})
    except (AnswerError, AttributeError):
        return {}


def _refusal(answer: Answer) -> str:
    try:
        failure = answer.json()
    except AnswerError:
        return f"the manager answered {answer.status}"
    lines = [f"{failure['message']} [{failure['code']}]"]
    for problem in (failure.get("details") or {}).get("problems", ()):
        where = f"line {problem['line']}, column {problem['column']}: " if problem["line"] else ""
        lines.append(f"  {where}{problem['message']} [{problem['code']}]")
        if problem.get("hint"):
            lines.append(f"    hint: {problem['hint']}")
    return "\n".join(lines)
