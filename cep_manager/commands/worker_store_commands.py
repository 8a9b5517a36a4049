"""Commands on the failed events, and on the data of missing plans, that workers store."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.config import ManagerConfig
from cep_manager.errors import UnknownWorkerError
from cep_manager.events.sending import own_authorization
from cep_manager.monitoring.failed_events.client import FailedEventStores
from cep_manager.monitoring.failed_events.model import (
    DiscardedEvents,
    FailedEventList,
    FailedEventSelection,
    ReplayedEvents,
)
from cep_manager.monitoring.set_aside.client import AsideStores
from cep_manager.monitoring.set_aside.model import AdoptedWorker, AsideList, DiscardedAside, RestoredAside
from cep_manager.monitoring.worker_calls import live_workers


class WorkerStoreCommands:
    """Commands on the stores of workers."""

    def __init__(self, changes: PlanChanges, config: ManagerConfig) -> None:
        self._changes = changes
        self._config = config

    def failed_events(self, key: PlanKey, limit: int, authorization: str) -> FailedEventList:
        """See `ManagerView.failed_events`."""
        return self._error_stores(key, authorization).listed(limit)

    def replay_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> ReplayedEvents:
        """See `ManagerView.replay_errors`."""
        return self._error_stores(key, authorization).replay(choice)

    def discard_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> DiscardedEvents:
        """See `ManagerView.discard_errors`."""
        return self._error_stores(key, authorization).discard(choice)

    def set_aside(self, tenant: int, authorization: str) -> AsideList:
        """See `ManagerView.set_aside`."""
        return self._aside_stores(tenant, authorization).listed()

    def restore_aside(self, tenant: int, id_: str, authorization: str) -> RestoredAside:
        """See `ManagerView.restore_aside`."""
        return self._aside_stores(tenant, authorization).restore(id_)

    def discard_aside(self, tenant: int, id_: str, authorization: str) -> DiscardedAside:
        """See `ManagerView.discard_aside`."""
        return self._aside_stores(tenant, authorization).discard(id_)

    def adopt_worker(self, worker: str) -> AdoptedWorker:
        """See `ManagerView.adopt_worker`."""
        snapshot = self._changes.snapshot()
        strangers = {one.report.worker: one.report for one in snapshot.strangers if one.kind == "other-system"}
        if worker not in strangers:
            raise UnknownWorkerError(
                f"no worker named {worker} of another system reports to this manager: `cep status` lists those that do"
            )
        self._changes.service.adopt_worker(worker)
        return AdoptedWorker(worker, strangers[worker].system)

    def _aside_stores(self, tenant: int, authorization: str) -> AsideStores:
        shown = authorization or own_authorization(self._config.accounts.worker_token)
        return AsideStores(live_workers(self._changes.snapshot(), "the data that it has set aside"), tenant, shown)

    def _error_stores(self, key: PlanKey, authorization: str) -> FailedEventStores:
        snapshot = self._changes.snapshot()
        snapshot.record(key)
        shown = authorization or own_authorization(self._config.accounts.worker_token)
        return FailedEventStores(live_workers(snapshot, "its error store"), key, shown)
