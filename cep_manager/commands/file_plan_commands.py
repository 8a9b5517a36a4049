"""Commands on plans that come from files of the watched folder."""

from __future__ import annotations

from collections.abc import Collection

from cep_common.ids import PlanKey
from cep_manager.commands.plan_changes import PlanChanges, is_same_distributed, refuse_draining
from cep_manager.commands.reaches import known_reaches
from cep_manager.errors import (
    PlanExistsError,
)
from cep_manager.plans.differences import other_text
from cep_manager.plans.folder import FileOrigin, parse_origin
from cep_manager.plans.outcomes import Undeployed
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.rule_sets.origin import parse_rule_origin
from cep_manager.plans.stored_plan import SettingsPatch


class FilePlanCommands:
    """Deploys and undeploys the plans of files. Implements `FilePlans` of the watched folder."""

    def __init__(self, changes: PlanChanges) -> None:
        self._changes = changes

    def origins(self) -> dict[PlanKey, FileOrigin | None]:
        """See `FilePlans.origins`."""
        return {
            key: parse_origin(record.stored.settings.origin) for key, record in self._changes.snapshot().plans.items()
        }

    def deploy_file(
        self, tenant: int, text: str, origin: FileOrigin, files: Collection[str], *, edited: bool = False
    ) -> None:
        """See `FilePlans.deploy_file`."""
        compiled = self._changes.compilers.compile(text, known_reaches(self._changes.service.led()))
        with self._changes.one_at_a_time:
            origins, key = self.origins(), self._changes.key_of(tenant, compiled.name)
            theirs = {plan for plan, one in origins.items() if one is not None and one.node != origin.node}
            of_file = [plan for plan, one in origins.items() if one is not None and one.name == origin.name]
            former = next((plan for plan in of_file if plan not in theirs), key if key in of_file else None)
            before = self._changes.snapshot().plans.get(key)
            if before is not None and (former != key or (key in theirs and not edited)):
                if is_same_distributed(before, compiled):
                    text = before.target()[0]
                _refuse_other_source(before, origins[key], text, files, is_theirs=key in theirs)
            if before is not None:
                refuse_draining(before)
                if former not in (None, key):
                    self._changes.undeploy(former)
                self._changes.deploy_over(before, text, compiled)
            elif former is not None:
                self._changes.rename(former, text, compiled)
                key = former
            else:
                self._changes.add(key, text, compiled)
            self._changes.change_settings(key, SettingsPatch(origin=origin.text()))

    def undeploy(self, key: PlanKey) -> Undeployed:
        """See `FilePlans.undeploy`."""
        with self._changes.one_at_a_time:
            return self._changes.undeploy(key)


def _refuse_other_source(
    record: PlanRecord, source: FileOrigin | None, text: str, files: Collection[str], *, is_theirs: bool
) -> None:
    """Raise PlanExistsError unless a file may take the plan over: from a file that was removed, or unchanged."""
    name = record.key.plan
    rule = parse_rule_origin(record.stored.settings.origin)
    if rule is not None:
        raise PlanExistsError(
            f"a plan named {name} belongs to the rule set {rule.rule_set}; remove it there, or choose another name"
        )
    if source is not None and is_theirs:
        if record.target()[0] != text:
            where = f" from the file {source.name}" + (f" of {source.node}" if source.node else "")
            remedy = "make both files equal, or change this one again to replace the plan"
            raise other_text(name, record.target()[0], text, where, remedy)
        return
    if source is not None and source.name in files:
        raise PlanExistsError(
            f"a plan named {name} comes from the file {source.name}; choose another name in one of both"
        )
    if source is None and record.target()[0] != text:
        remedy = "replace that, undeploy it, or choose another name"
        raise other_text(name, record.target()[0], text, " by hand", remedy)
