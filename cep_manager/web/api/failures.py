"""Errors as HTTP: one table, one form of body, `{code, message, details}`; pages for people."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from flask import Flask, Response, make_response, render_template, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge

from cep_common.errors import CepError
from cep_manager.accounts.errors import (
    AccountExistsError,
    AccountInvalidError,
    AccountsOffError,
    LastAdminError,
    NoAccountError,
    TooManyAttemptsError,
    UnknownAccountError,
    WrongPasswordError,
)
from cep_manager.errors import (
    BadRequestError,
    CannotDrainError,
    ChangeUnderWayError,
    EventFileError,
    InsightBusyError,
    KafkaUnavailableError,
    ManagerError,
    ManagerUnavailableError,
    MediaTypeError,
    NodeSwitchError,
    NoDriverError,
    NotLeaderError,
    NoWorkerError,
    PlanExistsError,
    PlanInvalidError,
    PlanNotRunningError,
    PlansBusyError,
    PlanStoreError,
    PlanTooCostlyError,
    ProcessSilentError,
    QueryInvalidError,
    QuotaError,
    StateUnreadableError,
    StreamsBusyError,
    TailsBusyError,
    TopicRefusedError,
    TrialFailedError,
    TrialsBusyError,
    UnknownAsideError,
    UnknownComponentError,
    UnknownNodeError,
    UnknownOperationError,
    UnknownPlanError,
    UnknownProcessError,
    UnknownSavepointError,
    UnknownStreamError,
    UnknownWorkerError,
    WorkerFailedError,
    WorkerRejectedEventsError,
)
from cep_manager.plans.rule_sets.model import RuleSetRefusedError, UnknownRuleSetError
from cep_manager.web.login.next_page import is_page

logger = logging.getLogger(__name__)

HTTP_STATUS: dict[type[CepError], int] = {
    BadRequestError: 400,
    MediaTypeError: 415,
    UnknownPlanError: 404,
    UnknownOperationError: 404,
    UnknownSavepointError: 404,
    UnknownWorkerError: 404,
    UnknownAsideError: 404,
    StateUnreadableError: 409,
    NodeSwitchError: 409,
    UnknownNodeError: 404,
    NoDriverError: 503,
    QuotaError: 403,
    PlanExistsError: 409,
    ChangeUnderWayError: 409,
    CannotDrainError: 409,
    PlanInvalidError: 422,
    QueryInvalidError: 422,
    PlanNotRunningError: 409,
    TrialsBusyError: 429,
    RuleSetRefusedError: 422,
    UnknownRuleSetError: 404,
    PlansBusyError: 429,
    PlanTooCostlyError: 422,
    TrialFailedError: 422,
    UnknownComponentError: 404,
    UnknownStreamError: 404,
    NoWorkerError: 503,
    WorkerFailedError: 502,
    EventFileError: 422,
    WorkerRejectedEventsError: 422,
    TailsBusyError: 503,
    StreamsBusyError: 503,
    UnknownProcessError: 404,
    ProcessSilentError: 504,
    InsightBusyError: 503,
    AccountInvalidError: 422,
    AccountExistsError: 409,
    UnknownAccountError: 404,
    LastAdminError: 409,
    AccountsOffError: 404,
    NoAccountError: 403,
    WrongPasswordError: 403,
    TooManyAttemptsError: 429,
    TopicRefusedError: 409,
    KafkaUnavailableError: 503,
    PlanStoreError: 503,
    NotLeaderError: 503,
    ManagerUnavailableError: 503,
}

BUSY = (TailsBusyError, StreamsBusyError, TrialsBusyError, PlansBusyError, InsightBusyError)
"""What may be asked for again in a while."""

AGAIN_AFTER_S = 5

HTTP_CODES = {
    400: ("bad-request", "the request cannot be understood"),
    404: ("not-found", "no such address; docs/rest.md lists all calls"),
    405: ("method-not-allowed", "this address does not support that method"),
    413: ("body-too-large", "the request's body is too large; see http.body_bytes in the manager's configuration"),
    414: ("address-too-long", "the request's address is too long"),
}


class Failure(msgspec.Struct, frozen=True):
    """The body of every answer that is no success."""

    code: str
    message: str
    details: dict[str, Any] = {}


def failure(status: int, code: str, message: str, details: dict[str, Any] | None = None) -> Response:
    """Return a response that describes a failure."""
    body = msgspec.json.encode(Failure(code, message, details or {}))
    return Response(body, status, content_type="application/json")


def answer_failures(app: Flask) -> None:
    """Answer every error of `app`, in the format of the API that was called; log unexpected ones once."""
    app.register_error_handler(CepError, _answer_known)
    app.register_error_handler(HTTPException, answer_http)
    app.register_error_handler(Exception, _answer_unexpected)


def status_of(error: CepError | type[CepError]) -> int:
    """Return the HTTP status for `error`, or for errors of that kind."""
    kinds = (error if isinstance(error, type) else type(error)).__mro__
    return next((HTTP_STATUS[kind] for kind in kinds if kind in HTTP_STATUS), 500)


def _answer_known(error: CepError) -> Response:
    """Return the answer to an error that its caller can act on."""
    details = error.details if isinstance(error, ManagerError) else {}
    answer = _fitting(status_of(error), error.code, error.message, details)
    if isinstance(error, BUSY):
        answer.headers["Retry-After"] = str(AGAIN_AFTER_S)
    if isinstance(error, TooManyAttemptsError):
        answer.headers["Retry-After"] = str(error.wait_s)
    return answer


def answer_http(error: HTTPException) -> Response:
    """Return the answer to a request that HTTP itself refuses."""
    status = error.code or 500
    code, message = HTTP_CODES.get(status, (f"http-{status}", error.name.lower()))
    details: dict[str, Any] = {}
    if isinstance(error, MethodNotAllowed):
        details = {"allowed": sorted(error.valid_methods or ())}
    if isinstance(error, RequestEntityTooLarge):
        details = {"config": "http.body_bytes", "most_bytes": request.max_content_length}
    answer = _fitting(status, code, message, details)
    answer.headers.extend((name, value) for name, value in error.get_headers() if name == "Allow")
    return answer


def _answer_unexpected(error: Exception) -> Response:
    logger.error("request failed method=%s path=%s", request.method, request.path, exc_info=error)
    return _fitting(500, "internal", "the manager failed; its log says more")


def _fitting(status: int, code: str, message: str, details: dict[str, Any] | None = None) -> Response:
    """Return a page for browsers, otherwise the API's form."""
    if is_page(request.path):
        return make_response(render_template("failure.html", code=code, message=message), status)
    return failure(status, code, message, details)
