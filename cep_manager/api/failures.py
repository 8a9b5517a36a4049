"""Errors as HTTP: one table, one form of body, `{code, message, details}`."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from cep_common.errors import CepError
from cep_manager.errors import (
    BadRequestError,
    ChangeUnderWayError,
    EventsRefusedError,
    ManagerUnavailableError,
    NoDriverError,
    NotLeaderError,
    NoWorkerError,
    PlanExistsError,
    PlanInvalidError,
    QuotaError,
    StoreError,
    TailsBusyError,
    TrialFailedError,
    TrialsBusyError,
    UnknownPlanError,
    UnknownSavepointError,
    UnknownStreamError,
    WorkerFailedError,
)

logger = logging.getLogger(__name__)

HTTP_STATUS: dict[type[CepError], int] = {
    BadRequestError: 400,
    UnknownPlanError: 404,
    UnknownSavepointError: 404,
    NoDriverError: 503,
    QuotaError: 403,
    PlanExistsError: 409,
    ChangeUnderWayError: 409,
    PlanInvalidError: 422,
    TrialsBusyError: 429,
    TrialFailedError: 422,
    UnknownStreamError: 404,
    NoWorkerError: 503,
    WorkerFailedError: 502,
    EventsRefusedError: 422,
    TailsBusyError: 503,
    StoreError: 503,
    NotLeaderError: 503,
    ManagerUnavailableError: 503,
}

HTTP_CODES = {
    400: ("bad-request", "the request cannot be understood"),
    404: ("not-found", "there is nothing at this address; docs/rest.md lists what there is"),
    405: ("method-not-allowed", "this address does not take that method"),
    413: ("body-too-large", "the request's body is too large; see http.body_bytes in the manager's configuration"),
    414: ("address-too-long", "the request's address is too long"),
    415: ("unsupported-media-type", "the request's body has a type that is not taken here"),
}


class Failure(msgspec.Struct, frozen=True):
    """The body of every answer that is no success."""

    code: str
    message: str
    details: dict[str, Any] = {}


def failure(status: int, code: str, message: str, details: dict[str, Any] | None = None) -> Response:
    """An answer that tells of a failure."""
    body = msgspec.json.encode(Failure(code, message, details or {}))
    return Response(body, status, content_type="application/json")


def answer_failures(app: Flask) -> None:
    """Every error of `app` is answered in the API's form; what nobody expected is logged once."""
    app.register_error_handler(CepError, answer_known)
    app.register_error_handler(HTTPException, answer_http)
    app.register_error_handler(Exception, _answer_unexpected)


def status_of(error: CepError) -> int:
    """The HTTP status for `error`."""
    return next((HTTP_STATUS[kind] for kind in type(error).__mro__ if kind in HTTP_STATUS), 500)


def answer_known(error: CepError) -> Response:
    """The answer to an error that its caller can act on."""
    details: dict[str, Any] = {}
    if isinstance(error, PlanInvalidError):
        details = {"problems": [msgspec.to_builtins(problem) for problem in error.problems]}
    if isinstance(error, EventsRefusedError):
        details = {"code": error.reason_code, "problems": error.problems}
    return failure(status_of(error), error.code, error.message, details)


def answer_http(error: HTTPException) -> Response:
    """The answer to a request that HTTP itself refuses."""
    status = error.code or 500
    code, message = HTTP_CODES.get(status, (f"http-{status}", error.name.lower()))
    answer = failure(status, code, message)
    answer.headers.extend((name, value) for name, value in error.get_headers() if name == "Allow")
    return answer


def _answer_unexpected(error: Exception) -> Response:
    logger.error("request failed method=%s path=%s", request.method, request.path, exc_info=error)
    return failure(500, "internal", "the manager failed; its log says more")
