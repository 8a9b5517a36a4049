"""The manager's record of a plan that should run. Data alone."""

from __future__ import annotations

from enum import Enum

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import PlanHost, SubmitTopology, TopologyReport
from cep_common.protocol.tasks import StatisticsLevel
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.state import ChangeKind, PlanState
from cep_manager.plans.stored_plan import StoredPlan, StoredVersion

DRAIN_BEGINS = "workers are being ordered to stop its intake"


class Submission(Enum):
    """The progress of submitting an epoch to the driver."""

    NEW = "new"
    """Counted and never sent."""
    UNKNOWN = "unknown"
    """An earlier manager process may have sent it."""
    RAISING = "raising"
    """The plan store is asked for the next epoch."""
    SENT = "sent"


class PlanToRun(msgspec.Struct, frozen=True):
    """A stored plan with what its text was compiled to, or why it cannot be (`str`).

    `sent_before`: an earlier manager process may have submitted it under this epoch. `former` is the plan before a
    change that an earlier manager process began.
    """

    stored: StoredPlan
    compiled: CompiledPlan | str
    sent_before: bool = False
    former: PlanToRun | None = None

    @property
    def key(self) -> PlanKey:
        """Return the plan's key."""
        return self.stored.key


class PlanVersion(msgspec.Struct, frozen=True):
    """A plan's text, compiled, and the topology that it is to run as.

    `workers_asked` is the number of workers that the plan was rebalanced to, and `host_asked` where it was moved to,
    None when text and configuration decide. `instances` are those of its scaled stages, by stage.
    """

    text: str
    compiled: CompiledPlan
    epoch: int
    workers: int
    updated_ms: int
    workers_asked: int | None = None
    host: PlanHost = "own"
    host_asked: PlanHost | None = None
    instances: dict[str, int] = {}

    @property
    def slots(self) -> int:
        """Return the slots that its tasks take; 0 in a stage host, which has its own slot."""
        return 0 if self.host == "shared" else self.workers * self.compiled.cores

    def as_stored(self) -> StoredVersion:
        """Return what the plan store keeps of it."""
        return StoredVersion(
            self.text, self.updated_ms, self.epoch, self.workers_asked, self.host_asked, self.instances
        )


class ChangeTrial(msgspec.Struct, frozen=True):
    """The version that is to take a running plan's place.

    `sent_to` is the driver process that got it. The former topology's state is being moved to it since
    `moving_since_ms`; None: not, or not yet.
    """

    kind: ChangeKind
    version: PlanVersion
    submission: Submission
    sent_ms: int
    sent_to: tuple[str, int] = ("", 0)
    reason: str = "about to be started"
    moving_since_ms: int | None = None


class PlanRecord(msgspec.Struct, frozen=True):
    """A plan that should run: what is stored of it, and what is known of its topologies.

    `compiled` is None when its stored text no longer compiles; `unusable` then says why. `workers` is the number that
    its topology has, also when the stored plan leaves it open. `state_since_ms` and other times are monotonic.
    `sent_to` is the driver process that got the current epoch, `sent_peer` its connection. `interruption` says why it
    last stopped being active, or failed; empty when it never did.

    While a plan is being changed, either `trial` is started beside it, or it has replaced `fallback`, which returns if
    it does not get to run. `change_error` says why the last change failed. It was deployed under `first_epoch` (0: by
    an earlier manager process); topologies of earlier epochs belong to another plan of its name.

    While a plan is being undeployed, `drain_reason` is what it waits for. Of a plan whose groups send each other events
    by topics nothing has waited since `settles_since_ms` (monotonic). While it `rests` its stages take nothing in.
    Since `through_since_ms` (monotonic) no report names anything left of it. It `goes` once the plan store has been
    asked to remove it.
    """

    stored: StoredPlan
    compiled: CompiledPlan | None
    unusable: str
    workers: int
    state: PlanState
    reason: str
    state_since_ms: int
    submission: Submission
    sent_ms: int = 0
    sent_to: tuple[str, int] = ("", 0)
    sent_peer: bytes = b""
    restarts: int = 0
    interruption: str = ""
    interrupted_ms: int = 0
    host: PlanHost = "own"
    released: tuple[str, ...] = ()
    """Streams whose first event must not be waited for; checkpoints of the topology remember it."""
    trial: ChangeTrial | None = None
    fallback: PlanVersion | None = None
    change_error: str = ""
    ran_before: bool = False
    """An earlier manager process may have had it run in its present form."""
    first_epoch: int = 0
    drain_reason: str = ""
    rests: bool = False
    settles_since_ms: int | None = None
    through_since_ms: int | None = None
    goes: bool = False

    @property
    def key(self) -> PlanKey:
        """Return the plan's key."""
        return self.stored.key

    @property
    def text(self) -> str:
        """Return the text that runs, or is to run."""
        return self.stored.text

    @property
    def epoch(self) -> int:
        """Return the epoch of the plan's present topology."""
        return self.stored.epoch

    @property
    def draining(self) -> tuple[str, ...] | None:
        """Return the workers that may still have events of a plan that is being undeployed; None: it is not."""
        return self.stored.draining

    @property
    def slots(self) -> int:
        """Return the slots that its tasks take; 0 in a stage host, which has its own slot."""
        return 0 if self.host == "shared" else self.workers * (self.compiled.cores if self.compiled is not None else 1)

    def epochs(self) -> tuple[int, ...]:
        """Return the epochs under which topologies of the plan may run now."""
        return (self.epoch,) if self.trial is None else (self.epoch, self.trial.version.epoch)

    def owns(self, report: TopologyReport) -> bool:
        """Return whether the driver's report is about this plan.

        It is not when another plan had the name, say in a database that was replaced.
        """
        return report.deployed_ms in (0, self.stored.created_ms)

    def instances(self) -> frozenset[str]:
        """Return the component instances of what runs, and of what it may be changed to or back to."""
        versions = (self.version(), self.trial.version if self.trial is not None else None, self.fallback)
        return frozenset(name for one in versions if one is not None for name in one.compiled.instances())

    def version(self) -> PlanVersion | None:
        """Return the version to run now; None when it does not compile."""
        if self.compiled is None:
            return None
        stored = self.stored
        return PlanVersion(
            stored.text,
            self.compiled,
            stored.epoch,
            self.workers,
            stored.updated_ms,
            stored.workers,
            self.host,
            stored.host,
            stored.instances,
        )

    def to_submit(self, compiled: CompiledPlan) -> SubmitTopology:
        """Return the order for the driver to run `compiled`, which the record has or is about to have."""
        return compiled.submission(
            self.key,
            self.epoch,
            self.workers,
            self.stored.created_ms,
            restore=self.stored.restore,
            restore_epoch=self.stored.restore_epoch,
            host=self.host,
        )

    def target(self) -> tuple[str, int]:
        """Return the plan's text and number of workers, or those it will have after the change in progress."""
        version = self.trial.version if self.trial is not None else self
        return version.text, version.workers

    def target_compiled(self) -> CompiledPlan | None:
        """Return what the text of `target` was compiled to; None when it no longer compiles."""
        return self.trial.version.compiled if self.trial is not None else self.compiled

    def target_host(self) -> PlanHost:
        """Return where the plan runs, or will after the change in progress."""
        return self.trial.version.host if self.trial is not None else self.host

    def target_instances(self) -> dict[str, int]:
        """Return the instances of its scaled stages, or those that they will have after the change in progress."""
        return self.trial.version.instances if self.trial is not None else self.stored.instances

    def has_run(self) -> bool:
        """Return whether the plan may have run in its present form.

        False when it is known never to have run, or cannot run any longer.
        """
        if self.state is PlanState.FAILED:
            return False
        new = self.state in (PlanState.WAITING, PlanState.DEPLOYING) and not self.interruption
        return not new or self.ran_before

    def traced(self) -> bool:
        """Return whether workers log the plan's events: the user's setting, or else the plan's text, decides."""
        trace = self.stored.settings.trace
        if trace is not None:
            return trace
        return self.compiled is not None and self.compiled.trace

    def statistics_level(self) -> StatisticsLevel:
        """Return the statistics level as set by a user, or else by the plan's text."""
        statistics = self.stored.settings.statistics
        if statistics is not None:
            return statistics
        return self.compiled.statistics if self.compiled is not None else "basic"

    def accepts_events(self) -> bool:
        """Return whether workers accept events for the plan."""
        return self.stored.settings.intake and self.draining is None

    def change(self) -> ChangeKind | None:
        """Return the kind of the change that is under way."""
        if self.trial is not None:
            return self.trial.kind
        if self.fallback is None:
            return None
        return "rebalance" if self.fallback.text == self.text else "update"


def new_record(plan: PlanToRun, default_workers: int, now_ms: int, default_host: PlanHost = "own") -> PlanRecord:
    """Return the plan, of which nothing is known yet.

    `default_workers` if neither it nor its text says how many it needs, in `default_host` if it does not say where and
    asks for nothing more.
    """
    stored = plan.stored
    compiled = None if isinstance(plan.compiled, str) else plan.compiled.with_instances(stored.instances)
    unusable = plan.compiled if isinstance(plan.compiled, str) else ""
    workers = compiled.workers_for(stored.workers, default_workers) if compiled else stored.workers or default_workers
    return PlanRecord(
        stored=msgspec.structs.replace(stored, counted=max(stored.epoch, stored.counted)),
        compiled=compiled,
        unusable=unusable,
        workers=workers,
        host=compiled.host_for(workers, default_host, stored.host) if compiled else "own",
        state=PlanState.FAILED if unusable else PlanState.WAITING,
        reason=unusable or "not yet submitted",
        state_since_ms=now_ms,
        submission=Submission.UNKNOWN if plan.sent_before else Submission.NEW,
        ran_before=plan.sent_before,
        first_epoch=0 if plan.sent_before else stored.epoch,
        drain_reason=DRAIN_BEGINS if stored.draining is not None else "",
    )


def with_stored(record: PlanRecord, **changes: object) -> PlanRecord:
    """Return the plan with changes of what is stored of it."""
    return msgspec.structs.replace(record, stored=msgspec.structs.replace(record.stored, **changes))


def with_version(record: PlanRecord, version: PlanVersion) -> PlanRecord:
    """Return the plan with another text and topology, of which nothing is known yet."""
    return msgspec.structs.replace(
        record,
        stored=record.stored.in_version(version.as_stored()),
        compiled=version.compiled,
        unusable="",
        workers=version.workers,
        host=version.host,
        restarts=0,
        trial=None,
        ran_before=False,
    )
