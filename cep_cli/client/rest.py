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

    It calls the manager at `url` (`http://host:port`; several are separated by commas), or the one that this manager
    names as the leader; while no manager leads it waits a little. Methods raise PeerError when nobody answers and
    CommandRefusedError on errors.
    """

    def __init__(
        self, url: str, tenant: int = SUPER_TENANT, token: str = "", basic: tuple[str, str] | None = None
    ) -> None:
        """Show `token`, or else the name and password `basic`, where they are given."""
        self._shown = bearer(token) if token or basic is None else {"Authorization": _basic(*basic)}
        self._urls = tuple(one.strip().rstrip("/") for one in url.split(","))
        self.url = self._urls[0]
        self.tenant = tenant
        self.token = token

    def deploy(self, text: str, replace: bool, savepoint: str = "") -> Any:
        """Return what became of deploying the plan in `text`, to begin from `savepoint` if one is named."""
        begin = {"from": savepoint} if savepoint else {}
        return self._call("POST", "/plans", body=text.encode(), replace=str(replace).lower(), **begin)

    def deploy_renamed(self, plan: str, text: str, savepoint: str = "") -> Any:
        """Rename `plan` as `text` says and deploy that text, from `savepoint` if one is named."""
        begin = {"from": savepoint} if savepoint else {}
        return self._call("PUT", f"/plans/{quote(plan)}", body=text.encode(), rename="true", **begin)

    def preview_edit(self, plan: str, text: str) -> Any:
        """Return what `text` would keep of the state of `plan` in its place; nothing is deployed."""
        path = f"/plans/{quote(plan)}/edit-preview"
        return self._do("POST", path, text.encode(), {}, PREVIEW_TIMEOUT_S)

    def explain(self, plan: str) -> Any:
        """Return how the engine runs the queries of `plan`."""
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
        """Return what became of restarting the plan, from `savepoint` if one is named."""
        begin = {"from": savepoint} if savepoint else {}
        return self._call("POST", f"/plans/{quote(plan)}/restart", body=None, **begin)

    def undeploy(self, plan: str, discard: bool = False) -> Any:
        """Return what became of undeploying the plan; with `discard` what waits is dropped."""
        return self._call("DELETE", f"/plans/{quote(plan)}", discard=str(discard).lower())

    def deploy_rules(
        self, name: str, files: list[dict[str, str]], revision: str = "", dry_run: bool = False, remove: bool = True
    ) -> Any:
        """Return the report of making the rule set what `files` say.

        Raises RefusedError, with the report in its details.
        """
        body = msgspec.json.encode({"files": files, "revision": revision})
        return self._rules("PUT", name, body, dry_run=_flag(dry_run), remove=_flag(remove))

    def remove_rules(self, name: str, dry_run: bool) -> Any:
        """Return the report of undeploying all plans of the rule set.

        Raises RefusedError, with the report in its details.
        """
        return self._rules("DELETE", name, None, dry_run=_flag(dry_run))

    def rule_set(self, name: str) -> Any:
        """Return what is deployed of a rule set."""
        return self._call("GET", f"/rule-sets/{quote(name)}")

    def _rules(self, method: str, name: str, body: bytes | None, **parameters: str) -> Any:
        return self._do(method, f"/rule-sets/{quote(name)}", body, parameters, RULES_TIMEOUT_S)

    def samples(self, plan: str, stage: str = "") -> Any:
        """Return what is being sampled of the plan, or of one of its stages, and what was seen."""
        return self._call("GET", f"/plans/{quote(plan)}/samples", component=stage)

    def query(self, plan: str, query: str, limit: int) -> Any:
        """Return what a table, named window or aggregation of the running plan holds."""
        body = msgspec.json.encode({"query": query, "limit": limit})
        return self._call("POST", f"/plans/{quote(plan)}/query", body=body)

    def checkpoints(self, plan: str) -> Any:
        """Return the plan's newest checkpoints."""
        return self._call("GET", f"/plans/{quote(plan)}/checkpoints")

    def exceptions(self, plan: str | None) -> Any:
        """Return what went wrong with the plan, or with all plans of the tenant."""
        return self._call("GET", f"/plans/{quote(plan)}/exceptions" if plan else "/exceptions")

    def failed_events(self, plan: str, limit: int) -> Any:
        """Return events of the plan that failed and that workers keep."""
        return self._call("GET", f"/plans/{quote(plan)}/errors", limit=str(limit))

    def set_aside(self) -> Any:
        """Return what workers have set aside of plans that are missing."""
        return self._call("GET", "/wal")

    def restore_aside(self, id_: str) -> Any:
        """Return what became of restoring what is set aside as `id_`."""
        return self._call("POST", f"/wal/{quote(id_)}/restore")

    def discard_aside(self, id_: str) -> Any:
        """Return what became of discarding what is set aside as `id_`."""
        return self._call("POST", f"/wal/{quote(id_)}/discard")

    def adopt_worker(self, worker: str) -> Any:
        """Return what became of letting a worker of another system serve this one."""
        return self._call("POST", f"/workers/{quote(worker)}/adopt")

    def replay_errors(self, plan: str, choice: dict[str, Any]) -> Any:
        """Return what became of sending kept events where they failed once more."""
        return self._call("POST", f"/plans/{quote(plan)}/errors/replay", body=msgspec.json.encode(choice))

    def discard_errors(self, plan: str, choice: dict[str, Any]) -> Any:
        """Return how many entries are gone."""
        return self._call("POST", f"/plans/{quote(plan)}/errors/discard", body=msgspec.json.encode(choice))

    def overview(self) -> Any:
        """Return the system at a glance, with its alerts."""
        return self._call("GET", "/overview")

    def workers(self) -> Any:
        """Return all workers."""
        return self._call("GET", "/workers")

    def clear_checkpoints(self, plan: str) -> Any:
        return self._call("DELETE", f"/plans/{quote(plan)}/checkpoints")

    def operations(self) -> list[Any]:
        """Return the newest long actions, newest first."""
        found: list[Any] = self._call("GET", "/operations")["operations"]
        return found

    def operation(self, operation: str) -> Any:
        """Return how far a long action has got."""
        return self._call("GET", f"/operations/{quote(operation, safe='')}")

    def savepoints(self, plan: str) -> list[Any]:
        """Return the plan's savepoints, oldest first."""
        savepoints: list[Any] = self._call("GET", f"/plans/{quote(plan)}/savepoints")["savepoints"]
        return savepoints

    def take_savepoint(self, plan: str, name: str) -> Any:
        """Return the savepoint that is being taken."""
        body = msgspec.json.encode({"name": name})
        return self._call("POST", f"/plans/{quote(plan)}/savepoints", body=body)

    def delete_savepoint(self, plan: str, name: str) -> None:
        self._call("DELETE", f"/plans/{quote(plan)}/savepoints/{quote(name)}")

    def plans(self) -> list[Any]:
        """Return every plan of the tenant with its status."""
        plans: list[Any] = self._call("GET", "/plans")["plans"]
        return plans

    def plan(self, plan: str) -> Any:
        return self._call("GET", f"/plans/{quote(plan)}")

    def topology(self, plan: str) -> Any:
        """Return the plan's live graph."""
        return self._call("GET", f"/plans/{quote(plan)}/topology")

    def nodes(self) -> Any:
        """Return the two nodes of `cep node`."""
        return self._call("GET", "/nodes")["nodes"]

    def switch_nodes(self) -> Any:
        """Let the active node hand over to the other one."""
        return self._call("POST", "/nodes/switch")

    def cluster(self) -> Any:
        return self._call("GET", "/cluster")

    def critical_alerts(self) -> list[Any]:
        """Return what is critical of workers and managers, beside plans; nothing for a token that may not see it."""
        try:
            found: list[Any] = self.overview()["alerts"]
        except CommandRefusedError:
            return []
        return [one for one in found if one["severity"] == "critical" and one["subject"] in ("worker", "manager")]

    def managers(self) -> list[Any]:
        """Return all managers and who leads; none for a token that does not see the system."""
        try:
            managers: list[Any] = self.cluster().get("managers", [])
        except CommandRefusedError:
            return []
        return managers

    def account(self) -> Any:
        """Return who the manager takes the caller for."""
        return self._call("GET", "/account")

    def change_password(self, former: str, password: str) -> None:
        self._call("POST", "/account/password", body=msgspec.json.encode({"former": former, "password": password}))

    def make_token(self, name: str, role: str, days: int) -> str:
        """Return a new token of the caller's own."""
        body = msgspec.json.encode({"name": name, "role": role, "days": days})
        return str(self._call("POST", "/account/tokens", body=body)["token"])

    def revoke_token(self, name: str) -> None:
        self._call("DELETE", f"/account/tokens/{quote(name, safe='')}")

    def processes(self) -> list[Any]:
        """Return every process of the system."""
        processes: list[Any] = self._call("GET", "/processes")["processes"]
        return processes

    def log(self, process: str, **wanted: str) -> Any:
        """Log records of a process."""
        return self._call("GET", f"/processes/{quote(process, safe='')}/log", None, **wanted)

    def search_logs(self, **wanted: str) -> Any:
        """Return the newest log records of all processes."""
        return self._call("GET", "/log", None, **wanted)

    def users(self) -> list[Any]:
        """Return all users, where people log in."""
        users: list[Any] = self._call("GET", "/users")["users"]
        return users

    def configuration(self, process: str) -> Any:
        """Return the configuration that a process works with."""
        return self._call("GET", f"/processes/{quote(process, safe='')}/configuration")

    def is_healthy(self) -> bool:
        """Return whether the manager answers and its control loop moves."""
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
        """Ask the manager at `location` next. Raise CommandRefusedError rather than send a token in the clear."""
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
    """Return whether nobody listened: the request has reached nobody."""
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
