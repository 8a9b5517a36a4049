"""The manager's REST API as the command line uses it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
import requests

from cep_cli.errors import RefusedError
from cep_common.errors import PeerError
from cep_common.ids import SUPER_TENANT
from cep_common.security.tokens import bearer

TIMEOUT_S = 30


class ManagerClient:
    """Calls the manager at `url` (`http://host:port`). Raises PeerError when nobody answers, RefusedError on errors."""

    def __init__(self, url: str, tenant: int = SUPER_TENANT, token: str = "") -> None:
        self.url = url.rstrip("/")
        self.tenant = tenant
        self.token = token

    def deploy(self, text: str, replace: bool) -> Any:
        """What became of deploying the plan in `text`."""
        return self._call("POST", "/plans", body=text.encode(), replace=str(replace).lower())

    def deploy_renamed(self, plan: str, text: str) -> Any:
        """What became of deploying `text`, of another name, in place of `plan`."""
        return self._call("PUT", f"/plans/{quote(plan)}", body=text.encode(), rename="true")

    def act(self, plan: str, action: str, **body: Any) -> Any:
        """What became of `action` (`activate`, `deactivate`, `restart`, `rebalance`, `rename`, `trace`) on the plan."""
        return self._call("POST", f"/plans/{quote(plan)}/{action}", body=msgspec.json.encode(body) if body else None)

    def undeploy(self, plan: str) -> None:
        self._call("DELETE", f"/plans/{quote(plan)}")

    def plans(self) -> list[Any]:
        """Every plan of the tenant with its status."""
        plans: list[Any] = self._call("GET", "/plans")["plans"]
        return plans

    def plan(self, plan: str) -> Any:
        return self._call("GET", f"/plans/{quote(plan)}")

    def topology(self, plan: str) -> Any:
        """The plan's live graph."""
        return self._call("GET", f"/plans/{quote(plan)}/topology")

    def cluster(self) -> Any:
        return self._call("GET", "/cluster")

    def is_healthy(self) -> bool:
        """True when the manager answers and its control loop moves."""
        try:
            return requests.get(f"{self.url}/api/v1/health", timeout=TIMEOUT_S).status_code == 200
        except requests.RequestException:
            return False

    def _call(self, method: str, path: str, body: bytes | None = None, **parameters: str) -> Any:
        try:
            answer = requests.request(
                method,
                f"{self.url}/api/v1{path}",
                params={"tenant": str(self.tenant), **parameters},
                data=body,
                headers={"Content-Type": "text/plain; charset=utf-8", **bearer(self.token)},
                timeout=TIMEOUT_S,
            )
        except requests.RequestException as error:
            raise PeerError(
                f"no manager answers at {self.url} ({type(error).__name__}); start one with `cep up` or name it with "
                "--manager"
            ) from error
        if answer.status_code >= 400:
            raise RefusedError(_refusal(answer))
        return answer.json() if answer.content else None


def _refusal(answer: requests.Response) -> str:
    try:
        failure = answer.json()
    except ValueError:
        return f"the manager answered {answer.status_code}"
    lines = [f"{failure['message']} [{failure['code']}]"]
    for problem in (failure.get("details") or {}).get("problems", ()):
        lines.append(f"  line {problem['line']}, column {problem['column']}: {problem['message']} [{problem['code']}]")
        if problem.get("hint"):
            lines.append(f"    hint: {problem['hint']}")
    return "\n".join(lines)
