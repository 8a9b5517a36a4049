"""The part of the REST API for authors of plans; none of its calls stores anything."""

from __future__ import annotations

from flask import request

from cep_manager.authoring.model import EditPreview, Language, PlanTrial, Preview, Validation
from cep_manager.errors import (
    PlanInvalidError,
    PlansBusyError,
    PlanTooCostlyError,
    TrialFailedError,
    TrialsBusyError,
    UnknownPlanError,
)
from cep_manager.web.api.caller_slots import one_at_a_time
from cep_manager.web.api.calls import Api, json_body, plan_key, plan_text
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.ports import ManagerView
from siddhi.explanation import PlanExplanation
from siddhi.trial.messages import TrialResult

_COSTLY = (PlansBusyError, PlanTooCostlyError)


def authoring_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get(
        "/language",
        "The language of plans: keywords, windows, functions with signatures and summaries",
        answers=Language,
        of_tenant=False,
    )
    def show_language() -> Language:
        return view.language()

    @api.post(
        "/validate",
        "Check the plan in the body; the answer lists its problems and the names it defines",
        answers=Validation,
        body=plan_text(required=False),
        fails=_COSTLY,
        of_tenant=False,
    )
    def validate_plan(body: str) -> Validation:
        with one_at_a_time():
            return view.validate(body)

    @api.post(
        "/preview",
        "Preview of deploying the plan in the body: its graph and its query plan, also in words",
        answers=Preview,
        body=plan_text(),
        fails=(PlanInvalidError, *_COSTLY),
    )
    def preview_plan(body: str) -> Preview:
        with one_at_a_time():
            return view.preview(read_tenant(request), body)

    @api.post(
        "/plans/<name>/edit-preview",
        "Preview of the state that would be kept if the plan in the body replaced the deployed one",
        answers=EditPreview,
        body=plan_text(),
        fails=(UnknownPlanError, PlanInvalidError, TrialsBusyError, TrialFailedError, *_COSTLY),
    )
    def preview_edit(name: str, body: str) -> EditPreview:
        with one_at_a_time():
            return view.preview_edit(plan_key(view, name), body)

    @api.post(
        "/explain",
        "Explain how the engine would run the queries of the plan in the body: operators, why not faster ones, "
        "expected cost",
        answers=PlanExplanation,
        body=plan_text(),
        fails=(PlanInvalidError, TrialsBusyError, TrialFailedError, *_COSTLY),
        of_tenant=False,
    )
    def explain_text(body: str) -> PlanExplanation:
        with one_at_a_time():
            return view.explain(body)

    @api.get(
        "/plans/<name>/explanation",
        "Explain how the engine runs the queries of the plan: operators, why not faster ones, expected cost",
        answers=PlanExplanation,
        fails=(UnknownPlanError, PlanInvalidError, TrialsBusyError, TrialFailedError, *_COSTLY),
    )
    def explain_plan(name: str) -> PlanExplanation:
        with one_at_a_time():
            return view.explain_plan(plan_key(view, name))

    @api.post(
        "/try",
        "Try out a plan with some events, without deploying it",
        answers=TrialResult,
        body=json_body(PlanTrial),
        fails=(PlanInvalidError, TrialsBusyError, TrialFailedError, *_COSTLY),
        of_tenant=False,
    )
    def try_plan(body: PlanTrial) -> TrialResult:
        with one_at_a_time():
            return view.try_plan(body)
