"""A plan as the plan store keeps it, and the settings that change while it runs. Data alone."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import PlanHost
from cep_common.protocol.tasks import StatisticsLevel
from cep_manager.plans.state import ChangeKind


class PlanSettings(msgspec.Struct, frozen=True):
    """What users set for a deployed plan, without a restart and without another text.

    `intake`: workers accept events for it. `trace`: workers log its events; None leaves that to its text. `statistics`:
    what its stages count; None leaves that to its text. `origin`: the file that it comes from; empty for a plan that
    was deployed by hand.
    """

    intake: bool = True
    trace: bool | None = None
    statistics: StatisticsLevel | None = None
    origin: str = ""


class SettingsPatch(msgspec.Struct, frozen=True):
    """Changes of a plan's settings; fields that are not set stay unchanged."""

    intake: bool | msgspec.UnsetType = msgspec.UNSET
    trace: bool | msgspec.UnsetType = msgspec.UNSET
    statistics: StatisticsLevel | msgspec.UnsetType = msgspec.UNSET
    origin: str | msgspec.UnsetType = msgspec.UNSET

    def values(self) -> dict[str, object]:
        """Return the fields that are set, by name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not msgspec.UNSET}

    def apply(self, settings: PlanSettings) -> PlanSettings:
        """Return `settings` with the changes."""
        return msgspec.structs.replace(settings, **self.values())


class StoredVersion(msgspec.Struct, frozen=True):
    """A plan's text and the size of its topology.

    `workers` is the number asked for, and `host` where it was moved to; None leaves it to text and configuration.
    `instances` are the numbers of instances that its scaled stages have grown to, by stage.
    """

    text: str
    updated_ms: int
    epoch: int
    workers: int | None = None
    host: PlanHost | None = None
    instances: dict[str, int] = {}


class StoredPlan(msgspec.Struct, frozen=True):
    """A plan in the store; times are milliseconds since 1970.

    `workers` None leaves their number to the text, and then to the configuration; so does `host` with where it runs.
    While a change is not settled, `change` is its kind and `former` the plan before it: that runs until the new form
    runs. `restore` says what the plan starts from, until it has run (see `submit-topology` in the protocol), and
    `restore_epoch` the epoch under which that was ordered, 0 when it was not. `counted` is the newest epoch of it, at
    least `epoch`. While it is being undeployed, `draining` lists the workers that may have had events of it.
    `former_names` are names that it had before it was renamed, and that no plan has now. `instances` are the numbers of
    instances that its scaled stages have grown to, by stage.
    """

    key: PlanKey
    text: str
    epoch: int
    created_ms: int
    updated_ms: int
    settings: PlanSettings = PlanSettings()
    workers: int | None = None
    change: ChangeKind | None = None
    former: StoredVersion | None = None
    restore: str = ""
    restore_epoch: int = 0
    counted: int = 0
    draining: tuple[str, ...] | None = None
    former_names: tuple[str, ...] = ()
    host: PlanHost | None = None
    instances: dict[str, int] = {}

    def in_version(self, version: StoredVersion) -> StoredPlan:
        """Return the plan with the text and size of `version`."""
        return msgspec.structs.replace(
            self,
            text=version.text,
            updated_ms=version.updated_ms,
            epoch=version.epoch,
            workers=version.workers,
            host=version.host,
            instances=version.instances,
        )

    def before_change(self, former: StoredVersion) -> StoredPlan:
        """Return the plan before its unsettled change."""
        before = self.in_version(former)
        return msgspec.structs.replace(before, change=None, former=None, restore="", restore_epoch=0)
