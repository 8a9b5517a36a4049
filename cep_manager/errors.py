"""The manager's own errors; each has a stable code that REST and the console show.

CepError
└── ManagerError
    ├── PlanExistsError            a plan of that name is deployed already
    ├── UnknownPlanError           no such plan
    ├── UnknownSavepointError      the plan has no such savepoint
    ├── UnknownWorkerError         no such worker
    ├── UnknownAsideError          no data is set aside under that id
    ├── NoDriverError              no driver is alive to carry the request out
    ├── ChangeUnderWayError        the plan is being changed, which must end first
    ├── CannotDrainError           nothing can process what workers accepted for the plan
    ├── QuotaError                 the tenant's quota is exceeded
    ├── PlanInvalidError           a plan's text has problems; carries all of them
    ├── QueryInvalidError          an on-demand query cannot be answered; carries its problems
    ├── PlanNotRunningError        a plan's topology does not run, so that it has no state
    ├── BadRequestError            a request that cannot be understood
    ├── MediaTypeError             a body of a type that the call does not take
    ├── TrialsBusyError            too many plans are being tried out at the moment
    ├── StreamsBusyError           too many pages are being kept up to date at the moment
    ├── PlansBusyError             too many plans are being compiled at the moment, or for this caller
    ├── PlanTooCostlyError         a plan needed too much time or memory to compile
    ├── TrialFailedError           a plan that was tried out needed too much time or memory
    ├── UnknownOperationError      no such operation
    ├── UnknownStreamError         no such event stream
    ├── NoWorkerError              no worker serves an event stream
    ├── WorkerFailedError          a worker did not carry a request out
    ├── EventFileError             a file of events cannot be read
    ├── WorkerRejectedEventsError  a worker refused events; carries its reasons
    ├── TailsBusyError             too many event streams are being watched at the moment
    ├── TopicRefusedError          a topic of Kafka cannot be the plan's
    ├── KafkaUnavailableError      Kafka's brokers do not do what a plan needs
    ├── PlanStoreError             the plan store cannot be read or written
    ├── NotLeaderError             another manager leads, or none does at the moment
    └── ManagerUnavailableError    the control loop does not answer
"""

from __future__ import annotations

from typing import Any

import msgspec

from cep_common.errors import CepError
from cep_common.ids import PlanKey


class ManagerError(CepError):
    """An error of the manager that its caller can act on.

    `details` are for programs: what is wrong where, what may be there instead, which key of the configuration sets the
    limit.
    """

    code = "manager"

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details: dict[str, Any] = details or {}


class PlanExistsError(ManagerError):
    """A plan of that name is deployed with another text; replace it on purpose or choose another name."""

    code = "plan-exists"


class UnknownPlanError(ManagerError):
    """No plan of that name is deployed for the tenant."""

    code = "unknown-plan"


class UnknownSavepointError(ManagerError):
    """The plan has no savepoint of that name."""

    code = "unknown-savepoint"


class StateUnreadableError(ManagerError):
    """The plan's state was written by another version of the software, so nothing was changed."""

    code = "state-unreadable"


class UnknownWorkerError(ManagerError):
    """No worker has that name."""

    code = "unknown-worker"


class UnknownAsideError(ManagerError):
    """Nothing of that id is set aside at any worker."""

    code = "unknown-set-aside"


class NoDriverError(ManagerError):
    """No driver is up that could execute the request."""

    code = "no-driver"


class ChangeUnderWayError(ManagerError):
    """The plan is being changed; the request must wait until the change has succeeded or failed."""

    code = "change-under-way"


class CannotDrainError(ManagerError):
    """Nothing can process what workers accepted for the plan."""

    code = "cannot-drain"


class QuotaError(ManagerError):
    """The request exceeds the tenant's quota (`quotas` in the manager's configuration)."""

    code = "over-quota"


class PlanInvalidError(ManagerError):
    """The text of a plan cannot be deployed; `problems` holds everything that is wrong with it."""

    code = "plan-invalid"

    def __init__(self, problems: tuple[PlanProblem, ...]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        where = f"line {first.line}, column {first.column}: {first.message}{more}"
        super().__init__(where, {"problems": [msgspec.to_builtins(problem) for problem in problems]})
        self.problems = problems


class BadRequestError(ManagerError):
    """A request whose parameters or body cannot be understood."""

    code = "bad-request"


class MediaTypeError(ManagerError):
    """A request's body has a type that the call does not take."""

    code = "unsupported-media-type"


class QueryInvalidError(ManagerError):
    """An on-demand query that cannot be answered; `problems` holds everything that is wrong with it."""

    code = "query-invalid"

    def __init__(self, problems: tuple[PlanProblem, ...]) -> None:
        first = problems[0]
        where = f"line {first.line}, column {first.column}: " if first.line else ""
        details = {"problems": [msgspec.to_builtins(problem) for problem in problems]}
        super().__init__(f"{where}{first.message}", details)
        self.problems = problems


class PlanNotRunningError(ManagerError):
    """No process currently runs that has the state of the plan's stages."""

    code = "plan-not-running"


class PlansBusyError(ManagerError):
    """The limit of plans that are validated, previewed or compiled at once is reached, in all or for one caller."""

    code = "plans-busy"


class PlanTooCostlyError(ManagerError):
    """A plan needs more time or memory to compile than `compile` in the manager's configuration allows."""

    code = "plan-too-costly"


class TrialsBusyError(ManagerError):
    """The limit of concurrent trials is reached."""

    code = "trials-busy"


class StreamsBusyError(ManagerError):
    """The limit of live update streams is reached; poll instead, or retry later."""

    code = "streams-busy"


class TrialFailedError(ManagerError):
    """A plan that was tried out needed more time or memory than it may, or its process died."""

    code = "trial-failed"


class UnknownStreamError(ManagerError):
    """No plan of the tenant imports, or exports, an event stream of that name."""

    code = "unknown-stream"


class UnknownComponentError(ManagerError):
    """The plan has no stage of that name."""

    code = "unknown-component"


class UnknownOperationError(ManagerError):
    """The requested operation does not exist."""

    code = "unknown-operation"


class NoWorkerError(ManagerError):
    """No worker that lives serves the event stream."""

    code = "no-worker"


class WorkerFailedError(ManagerError):
    """A worker cannot be reached, or does not let the manager in."""

    code = "worker-failed"


class EventFileError(ManagerError):
    """A file of events cannot be read, lacks an attribute of the stream, or holds too much."""

    code = "event-file"


class WorkerRejectedEventsError(ManagerError):
    """A worker refused events and took none of them: `code` and `problems` in the details are its own."""

    code = "events-refused"

    def __init__(self, message: str, reason_code: str, problems: list[Any]) -> None:
        super().__init__(message, {"code": reason_code, "problems": problems})


class TailsBusyError(ManagerError):
    """The limit of watched event streams is reached."""

    code = "tails-busy"


class UnknownProcessError(ManagerError):
    """No process has that id, or it has ended and was removed."""

    code = "unknown-process"


class ProcessSilentError(ManagerError):
    """A process that was asked, for its log or for what it holds, did not answer in time, or would not."""

    code = "process-silent"


class InsightBusyError(ManagerError):
    """The limit of concurrent requests for process information is reached."""

    code = "insight-busy"


class TopicRefusedError(ManagerError):
    """A topic that the plan needs belongs to another plan, or is missing and may not be created."""

    code = "topic-refused"


class KafkaUnavailableError(ManagerError):
    """The brokers do not answer, or refuse what a plan with Kafka as transport needs."""

    code = "kafka-unavailable"


class PlanStoreError(ManagerError):
    """The plan store is missing, locked, damaged or of another version; nothing was changed."""

    code = "plan-store"


class NotLeaderError(ManagerError):
    """This manager does not lead, and has changed nothing: the request is for the one that does."""

    code = "not-leader"


class NodeSwitchError(ManagerError):
    """The other of two nodes cannot take over now."""

    code = "node-not-protected"


class UnknownNodeError(ManagerError):
    """No node has the name."""

    code = "unknown-node"


class ManagerUnavailableError(ManagerError):
    """The control loop did not answer in time or has stopped; the request may be repeated."""

    code = "manager-unavailable"


class PlanProblem(msgspec.Struct, frozen=True):
    """Something wrong in a plan's text.

    Lines and columns count from 1; 0 when it has no place. `rendered` is the message with the line in question and a
    caret under the column.
    """

    code: str
    message: str
    hint: str
    line: int
    column: int
    end_line: int
    end_column: int
    rendered: str


def unknown_plan(key: PlanKey) -> UnknownPlanError:
    """Return the error for a plan that does not exist."""
    message = f"no plan named {key.plan} is deployed for tenant {key.tenant}"
    return UnknownPlanError(message, {"plan": key.plan, "tenant": key.tenant})
