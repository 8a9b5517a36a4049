"""Commands on plans: deploy, replace, rename, restart, rebalance, undeploy."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import PlanHost
from cep_manager.authoring.compiler import with_name
from cep_manager.commands.plan_changes import PlanChanges, is_same_distributed, refuse_draining, refuse_during
from cep_manager.commands.reaches import known_reaches
from cep_manager.errors import (
    BadRequestError,
    ChangeUnderWayError,
    UnknownPlanError,
)
from cep_manager.plans.differences import other_text
from cep_manager.plans.outcomes import Outcome, Undeployed, outcome_of
from query_plan.annotations import MOST_INSTANCES

MOST_WORKERS = MOST_INSTANCES
"""The maximum number of workers, which is that of a plan's instances."""

WHERE: dict[PlanHost, str] = {"shared": "in a stage host", "own": "with a process of its own"}


class PlanCommands:
    """Deploys, changes and ends plans. Any thread may call; one command is carried out at a time."""

    def __init__(self, changes: PlanChanges) -> None:
        self._changes = changes

    def deploy(
        self,
        tenant: int,
        text: str,
        replace: bool,
        name: str | None = None,
        rename: bool = False,
        restore: str = "",
    ) -> Outcome:
        """See `ManagerView.deploy`."""
        compiled = self._changes.compilers.compile(text, known_reaches(self._changes.service.led()))
        if name is not None and compiled.name != name:
            if not rename:
                asked = f"to rename {name}, request it explicitly (rename=true)"
                raise BadRequestError(f"the text is of a plan named {compiled.name}, not {name}; {asked}")
            with self._changes.one_at_a_time:
                key = self.plan_key(tenant, name)
                self._changes.check_restore(key, restore)
                return self._changes.rename(key, text, compiled, restore)
        with self._changes.one_at_a_time:
            key = self._changes.key_of(tenant, compiled.name)
            self._changes.check_restore(key, restore)
            before = self._changes.snapshot().plans.get(key)
            if before is None:
                return self._changes.add(key, text, compiled, restore)
            refuse_draining(before)
            deployed = before.target()[0]
            if replace or deployed == text:
                return self._changes.deploy_over(before, text, compiled, restore)
            if is_same_distributed(before, compiled):
                return self._changes.deploy_over(before, deployed, compiled, restore)
        # Not while other commands wait: two long texts take a while to compare.
        raise other_text(key.plan, deployed, text)

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        """See `ManagerView.plan_key`."""
        snapshot = self._changes.snapshot()
        found = snapshot.key_named(tenant, name)
        if found is not None:
            return found
        present = snapshot.present_name(tenant, name)
        if present:
            message = f"no plan named {name} is deployed for tenant {tenant}: it was renamed to {present}"
            raise UnknownPlanError(message, {"plan": name, "tenant": tenant, "renamed_to": present})
        return self._changes.store.key_of(tenant, name)

    def rename(self, key: PlanKey, name: str) -> Outcome:
        """See `ManagerView.rename`."""
        with self._changes.one_at_a_time:
            record = self._changes.record(key)
            if name == key.plan:
                return outcome_of(record.key, record.epoch, f"{key.plan} has that name; nothing was changed")
            if record.compiled is None:
                raise ChangeUnderWayError(
                    f"{key.plan} cannot run ({record.unusable}), so its text cannot be given another name: deploy "
                    f"one that can run and is named {name} in its place (cep deploy FILE --rename {key.plan})"
                )
            text = with_name(record.target()[0], name)
            return self._changes.rename(key, text, self._changes.compilers.compile(text))

    def undeploy(self, key: PlanKey, discard: bool = False) -> Undeployed:
        """See `ManagerView.undeploy`."""
        with self._changes.one_at_a_time:
            return self._changes.undeploy(key, discard)

    def restart(self, key: PlanKey, restore: str = "") -> Outcome:
        """See `ManagerView.restart`."""
        self._changes.check_restore(key, restore)
        with self._changes.one_at_a_time:
            return self._changes.restart(self._changes.record(key), f"{key.plan} is restarted", restore)

    def rebalance(self, key: PlanKey, workers: int | None, host: PlanHost | None = None) -> Outcome:
        """See `ManagerView.rebalance`."""
        if workers is None and host is None:
            raise BadRequestError(
                "specify the number of workers or the host that the plan is to run on", {"at": "workers"}
            )
        if workers is not None and not 1 <= workers <= MOST_WORKERS:
            message = f"workers must be a whole number from 1 to {MOST_WORKERS:,}, not {workers}"
            raise BadRequestError(message, {"at": "workers", "allowed": {"minimum": 1, "maximum": MOST_WORKERS}})
        with self._changes.one_at_a_time:
            record = self._changes.record(key)
            refuse_during(record, "update")
            now = record.trial.version if record.trial is not None else record
            number = workers or now.workers
            if number == now.workers and host in (None, now.host):
                where = f" {WHERE[now.host]}" if host is not None else ""
                message = f"{key.plan} has {_workers(number)}{where} already; nothing was changed"
                return outcome_of(key, record.epoch, message)
            compiled = self._changes.compilers.compile(now.text)
            version, stored = record.trial.version if record.trial is not None else None, record.stored
            asked = host or (version.host_asked if version is not None else stored.host)
            if host == "shared" and self._changes.host_for(compiled, number, asked) != "shared":
                raise BadRequestError(
                    f"{key.plan} cannot share a stage host: it runs on {_workers(number)}, or asks for cores, memory "
                    "or labels with @Plan:resources",
                    {"at": "host", "allowed": ["own"]},
                )
            before = version.workers_asked if version is not None else stored.workers
            asked_workers = workers if workers is not None else before
            instances = record.target_instances()
            return self._changes.change(
                record, "rebalance", now.text, compiled, asked_workers, host=asked, instances=instances
            )


def _workers(number: int) -> str:
    return f"{number} topology worker{'' if number == 1 else 's'}"
