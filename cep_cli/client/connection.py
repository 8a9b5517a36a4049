"""The connection to the managers, with failover to the leader."""

from __future__ import annotations

import base64
import time
from typing import Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NewConnectionError

from cep_cli.errors import CommandRefusedError
from cep_common.errors import PeerError
from cep_common.security.tokens import bearer
from cep_common.web.client import Answer, AnswerError, WebClient

TIMEOUT_S = 30
MOST_ANSWER_BYTES = 64 * 2**20
HUNG_S = 2.0
"""How long one of several managers may take to report that it is up until it is skipped."""
LEADER_WITHIN_S, AGAIN_S = 6.0, 0.2
"""How long a command waits for a leader, and the interval of its checks. A standby takes over in less than 4 s."""

SENT_ON, UNAVAILABLE = 307, 503


class ManagerConnection:
    """Calls the manager that answered last, the leader that it names, or the next one of several.

    One thread at a time may use it.
    """

    def __init__(self, url: str, tenant: int, token: str, basic: tuple[str, str] | None) -> None:
        """Prepare the connection; nothing is sent yet. Arguments as for `ManagerClient`."""
        self._shown = bearer(token) if token or basic is None else {"Authorization": _basic(*basic)}
        self._urls = tuple(one.strip().rstrip("/") for one in url.split(","))
        self.url = self._urls[0]
        self.tenant = tenant
        self.token = token

    def is_healthy(self) -> bool:
        """Return whether the manager answers and its control loop runs; raises nothing."""
        try:
            with WebClient() as client:
                return client.request("GET", f"{self.url}/api/v1/health", timeout_s=TIMEOUT_S).status == 200
        except requests.RequestException:
            return False

    def call(self, method: str, path: str, body: bytes | None = None, **parameters: str) -> Any:
        """Call the API below `/api/v1` and return the decoded answer. Raises as `request`."""
        return self.request(method, path, body, parameters, TIMEOUT_S)

    def request(self, method: str, path: str, body: bytes | None, parameters: dict[str, str], timeout_s: float) -> Any:
        """Call the API and return the decoded answer; wait a while for a manager to lead.

        Raises:
            PeerError: No manager answers, or its answer cannot be used.
            CommandRefusedError: The manager refused the request.
        """
        deadline = time.monotonic() + LEADER_WITHIN_S
        asked = {self.url}
        answer = self._ask(method, path, body, parameters, timeout_s)
        while _is_of_no_leader(answer) and time.monotonic() < deadline:
            if answer.status == SENT_ON:
                self._turn_to(answer.headers["Location"])
            # Managers may name each other while none of them leads.
            if answer.status != SENT_ON or self.url in asked:
                time.sleep(AGAIN_S)
            asked.add(self.url)
            answer = self._ask(method, path, body, parameters, timeout_s)
        if answer.status >= 300:
            raise CommandRefusedError(_refusal(answer), answer.status, _details(answer))
        try:
            return answer.json() if answer.content() else None
        except AnswerError as error:
            raise PeerError(f"the manager at {self.url} sent an invalid response: {error}") from error

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
        self.url = f"{there.scheme}://{there.netloc}"


def _basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _is_of_no_leader(answer: Answer) -> bool:
    """Return whether the answer is from a manager that is not the leader."""
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


def _details(answer: Answer) -> dict[str, Any]:
    try:
        return dict(answer.json().get("details") or {})
    except (AnswerError, AttributeError, TypeError, ValueError):
        return {}


def _refusal(answer: Answer) -> str:
    try:
        failure = answer.json()
        lines = [f"{failure['message']} [{failure['code']}]"]
    except (AnswerError, KeyError, TypeError):  # another server, or a proxy in front of the manager
        return f"the manager answered {answer.status}"
    difference = _details(answer).get("difference")
    lines += [str(line) for line in difference] if isinstance(difference, list) else ()
    problems = _details(answer).get("problems")
    for problem in problems if isinstance(problems, list) else ():
        if not isinstance(problem, dict) or not {"message", "code"} <= problem.keys():
            continue  # problems of workers are about events, not about a text
        where = f"line {problem['line']}, column {problem.get('column')}: " if problem.get("line") else ""
        lines.append(f"  {where}{problem['message']} [{problem['code']}]")
        if problem.get("hint"):
            lines.append(f"    hint: {problem['hint']}")
    return "\n".join(lines)
