"""The part of the REST API for rule sets: folders of plans that are deployed together."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Request, request
from msgspec import Meta

from cep_manager.errors import PlansBusyError, PlanStoreError
from cep_manager.plans.rule_sets.model import (
    RuleFile,
    RuleSetDetails,
    RuleSetRefusedError,
    RuleSetReport,
    RuleSetSummary,
    UnknownRuleSetError,
)
from cep_manager.web.api.calls import Api, Body
from cep_manager.web.api.requests import read_json, read_tenant
from cep_manager.web.ports import RuleSetPort
from cep_manager.web.secret_masking import shown_text

MOST_RULES_BYTES = 32 * 2**20
"""A body with all files of a rule set may be longer than those of other calls."""


class RuleSetList(msgspec.Struct, frozen=True):
    """The rule sets of a tenant of which plans are deployed."""

    tenant: int
    rule_sets: tuple[RuleSetSummary, ...]


class RuleFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All files of a rule set, and the revision of the checkout that they come from (any text)."""

    files: tuple[RuleFile, ...]
    revision: Annotated[str, Meta(max_length=200)] = ""


class DeployRuleSetRequest(msgspec.Struct, frozen=True):
    """How a rule set is deployed."""

    dry_run: Annotated[bool, Meta(description="Report what would be done, without changing anything")] = False
    remove: Annotated[bool, Meta(description="Undeploy the plans of the rule set whose files are gone")] = True


class RemoveRuleSetRequest(msgspec.Struct, frozen=True):
    """How a rule set is removed."""

    dry_run: Annotated[bool, Meta(description="Report what would be done, without changing anything")] = False


def rule_routes(api: Api, view: RuleSetPort) -> None:
    """Add them to `api`."""

    @api.get("/rule-sets", "The tenant's rule sets", answers=RuleSetList)
    def list_rule_sets() -> RuleSetList:
        tenant = read_tenant(request)
        return RuleSetList(tenant, view.rule_sets(tenant))

    @api.get(
        "/rule-sets/<name>",
        "The deployed plans of a rule set, with files and texts",
        answers=RuleSetDetails,
        fails=(UnknownRuleSetError,),
    )
    def show_rule_set(name: str) -> RuleSetDetails:
        found = view.rule_set(read_tenant(request), name)
        plans = tuple(msgspec.structs.replace(one, text=shown_text(one.text)) for one in found.plans)
        return msgspec.structs.replace(found, plans=plans)

    @api.put(
        "/rule-sets/<name>",
        "Deploy, change and remove plans so that the rule set matches the body, all or nothing",
        answers=RuleSetReport,
        query=DeployRuleSetRequest,
        body=Body(_read_files, RuleFiles),
        fails=(RuleSetRefusedError, PlansBusyError, PlanStoreError),
    )
    def deploy_rule_set(name: str, query: DeployRuleSetRequest, body: RuleFiles) -> RuleSetReport:
        tenant = read_tenant(request)
        return view.deploy_rules(tenant, name, body.files, body.revision, removes=query.remove, dry_run=query.dry_run)

    @api.delete(
        "/rule-sets/<name>",
        "Undeploy all plans of a rule set once their accepted events are processed",
        answers=RuleSetReport,
        query=RemoveRuleSetRequest,
        fails=(UnknownRuleSetError, RuleSetRefusedError, PlanStoreError),
    )
    def remove_rule_set(name: str, query: RemoveRuleSetRequest) -> RuleSetReport:
        return view.remove_rules(read_tenant(request), name, dry_run=query.dry_run)


def _read_files(asked: Request) -> RuleFiles:
    asked.max_content_length = MOST_RULES_BYTES
    return read_json(asked, RuleFiles)
