"""Commands on the checkpoints and savepoints of plans; the driver carries them out and reports the outcome."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import NO_SAVEPOINT, ClearCheckpoints, DeleteSavepoint, TakeSavepoint
from cep_common.protocol.drivers import FORMER_SAVEPOINT, UNREADABLE_SAVEPOINT, SavepointReport
from cep_manager.checkpoints.view import (
    CheckpointList,
    SavepointList,
    SavepointView,
    checkpoint_list,
    require_savepoint,
    savepoint_list,
    savepoint_view,
)
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.errors import BadRequestError
from cep_manager.plans.outcomes import Outcome, outcome_of

_RESERVED = (FORMER_SAVEPOINT, UNREADABLE_SAVEPOINT)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class CheckpointCommands:
    """Commands on checkpoints and savepoints. Each raises NoDriverError if no driver is alive."""

    def __init__(self, changes: PlanChanges) -> None:
        self._changes = changes

    def checkpoints(self, key: PlanKey) -> CheckpointList:
        """See `ManagerView.checkpoints`."""
        return checkpoint_list(self._changes.snapshot(), key, self._changes.record(key).epoch)

    def clear_checkpoints(self, key: PlanKey) -> Outcome:
        """See `ManagerView.clear_checkpoints`."""
        record = self._changes.record(key)
        self._changes.service.order(ClearCheckpoints(key))
        message = f"the checkpoints of {key.plan} are removed; its topology keeps running and takes new ones"
        return outcome_of(key, record.epoch, message, changed=True)

    def savepoints(self, key: PlanKey) -> SavepointList:
        """See `ManagerView.savepoints`."""
        return savepoint_list(self._changes.snapshot(), key)

    def take_savepoint(self, key: PlanKey, name: str) -> SavepointView:
        """See `ManagerView.take_savepoint`."""
        record = self._changes.record(key)
        name = name or self._new_name()
        require_free_name(name)
        self._changes.service.order(TakeSavepoint(key, record.epoch, name))
        return savepoint_view(SavepointReport(key, name, "taking"))

    def delete_savepoint(self, key: PlanKey, name: str) -> None:
        """See `ManagerView.delete_savepoint`."""
        snapshot = self._changes.snapshot()
        if name not in [one.name for one in savepoint_list(snapshot, key).savepoints]:
            require_savepoint(snapshot, key, name)
        self._changes.service.order(DeleteSavepoint(key, name))

    def _new_name(self) -> str:
        return datetime.fromtimestamp(self._changes.clock.now_ms() / 1_000, UTC).strftime("%Y%m%d-%H%M%S")


def require_free_name(name: str) -> None:
    """Raise BadRequestError if the name of a savepoint is not allowed."""
    if not _NAME.fullmatch(name) or name == NO_SAVEPOINT or name.startswith(_RESERVED):
        raise BadRequestError(
            f"a savepoint cannot be named {name[:80]!r}: use up to 64 letters, digits, '.', '_' and '-', beginning "
            f"with a letter or digit; {NO_SAVEPOINT!r} means no savepoint, and savepoints kept of other plans "
            "or versions have "
            f"left is kept under names that begin with {' or '.join(map(repr, _RESERVED))}"
        )
