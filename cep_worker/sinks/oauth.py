"""OAuth 2 access tokens for requests: fetched from an authorisation server, cached, and renewed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import requests

from cep_common.configuration.redaction import shown_url
from cep_common.web.client import AnswerError, WebClient
from query_plan.connectors.sinks import HttpSinkOptions

EARLY_S = 10.0
"""How long before its expiry a token is renewed."""
LONGEST_S = 10.0**9
"""A token with a longer lifetime counts as one that never expires."""
REFUSALS = (400, 401, 403)
"""Status codes with which an authorisation server rejects the credentials."""


class TokenError(Exception):
    """No token could be got, for the reason given."""


class OAuthTokens:
    """The tokens of one sink.

    A refresh token is tried before a user's password, and that before the client's credentials alone.
    """

    def __init__(self, options: HttpSinkOptions, client: WebClient) -> None:
        self._options = options
        self._client = client
        self._refresh_token = options.refresh_token
        self._token = ""
        self._ends_s = 0.0

    def header(self) -> dict[str, str]:
        """Return the Authorization header of a request.

        Raises TokenError.
        """
        if not self._token or time.monotonic() >= self._ends_s:
            self._get()
        return {"Authorization": f"Bearer {self._token}"}

    def refused(self) -> None:
        """Discard the token; the next request gets another one."""
        self._token = ""

    def _get(self) -> None:
        problem = ""
        for grant in self._grants():
            answer = self._ask(grant)
            if answer is None:
                problem = f"{shown_url(self._options.token_url)} refuses {grant['grant_type']}"
                continue
            self._token = str(answer["access_token"])
            if not (self._token.isascii() and self._token.isprintable()):
                self._token = ""
                raise TokenError(
                    f"{shown_url(self._options.token_url)} returned an access_token that is not a valid header value"
                )
            self._refresh_token = str(answer.get("refresh_token") or self._refresh_token)
            lasts_s = _seconds(answer.get("expires_in"))
            self._ends_s = time.monotonic() + max(lasts_s - EARLY_S, lasts_s / 2)
            return
        raise TokenError(problem)

    def _grants(self) -> Iterator[dict[str, str]]:
        scope = {"scope": self._options.oauth_scope} if self._options.oauth_scope else {}
        if self._refresh_token:
            yield {"grant_type": "refresh_token", "refresh_token": self._refresh_token, **scope}
        if self._options.oauth_username:
            password = {"username": self._options.oauth_username, "password": self._options.oauth_password}
            yield {"grant_type": "password", **password, **scope}
        else:
            yield {"grant_type": "client_credentials", **scope}

    def _ask(self, grant: dict[str, str]) -> dict[str, Any] | None:
        """Return the authorisation server's response; None if it rejects the credentials.

        Raises TokenError.
        """
        options = self._options
        try:
            answer = self._client.request(
                "POST", options.token_url, data=grant, auth=(options.consumer_key, options.consumer_secret),
                headers={"Content-Type": "application/x-www-form-urlencoded"}, timeout_s=options.timeout_ms / 1000,
            )  # fmt: skip
            if answer.status in REFUSALS:
                return None
            if not answer.ok:
                raise TokenError(f"status {answer.status} from {shown_url(options.token_url)}")
            found = answer.json()
        except AnswerError as error:
            raise TokenError(f"{shown_url(options.token_url)}: {error}") from error
        except requests.RequestException as error:
            raise TokenError(f"{type(error).__name__} at {shown_url(options.token_url)}") from error
        if not isinstance(found, dict) or not found.get("access_token"):
            raise TokenError(f"{shown_url(options.token_url)} returned no access_token")
        return found


def _seconds(lasts: Any) -> float:
    """Return a token's lifetime according to its server; infinite if the server does not say."""
    if isinstance(lasts, int | float) and 0 <= lasts <= LONGEST_S:
        return float(lasts)
    return float("inf")
