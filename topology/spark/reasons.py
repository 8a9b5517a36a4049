"""Explains Spark's error texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import ascii_letters, digits

import msgspec

from topology.spark.errors import UnfitPlanError

_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) |Lost executor (\S+) on|[Ee]xecutor (\S+) (?:was )?lost")
_OWN = re.compile(r"^(?:topology|cep_common)\.\w+\.\w+: ")
_UNFIT = re.compile(rf"^{re.escape(f'{UnfitPlanError.__module__}.{UnfitPlanError.__name__}')}: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)): .+$", re.MULTILINE)
_MODULE = "._" + ascii_letters + digits
_FOREIGN = ("py4j", "org.apache.spark", "java.")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:(?!\tat ).*\n?)*")
_PLACE = re.compile(r"^failed in (?:instance (\S+) of )?task (\d+) on (\S+) \(process (\d+)\)$", re.MULTILINE)


_KILLED = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: exit)? (?:code|status)|Exit status):? ?(?P<code>137|52|-103|-104)\b"
    r"|OOM ?Killed|OutOfMemory|exceeding (?:physical|virtual) memory limits"
)
"""How the standalone cluster, YARN and Kubernetes report an executor that was killed, or ran out of memory.

137 is SIGKILL, 52 Spark's own code for a full heap, the others are YARN's.
"""
EXECUTOR_LOST, EXECUTOR_KILLED, SLOTS_LOST = "executor-lost", "executor-killed", "slots-lost"
NO_EVENT_ENDS = frozenset({EXECUTOR_LOST, SLOTS_LOST})
"""Codes of ends that no event of the topology can have caused."""
DOUBTFUL_ENDS = frozenset({EXECUTOR_KILLED})
"""Codes of ends that an event may have caused, for example by using all memory, or other processes of the machine."""
LONGEST_FAULT = 2_000
"""The maximum number of characters of a plan's reported errors; the first one is always reported."""


class Ending(msgspec.Struct, frozen=True):
    """Why a topology's job has ended.

    `reason` is for the topology's state, `code` the type of error. The `traceback` is Python's, empty when no Python
    failed; `instance`, `host` and `process_id` say where, as far as known. `unfit`: the plan itself is the cause:
    another try is useless.
    """

    reason: str
    code: str = "ended"
    traceback: str = ""
    instance: str = ""
    host: str = ""
    process_id: int = 0
    unfit: bool = False

    def text(self) -> str:
        """Return the reason without the type of error."""
        before, _, text = self.reason.partition(f"{self.code}: ")
        return text if text and not before.strip(_MODULE) else self.reason


def describe_place(instance: str, task: int, host: str, process_id: int) -> str:
    """Return where a task failed, in the form in which `read_ending` finds it in the text of the error.

    Without `instance`, in none of them.
    """
    which = f"instance {instance} of " if instance else ""
    return f"failed in {which}task {task} on {host} (process {process_id})"


def describe_unfit(failure: Exception) -> str:
    """Return why the plan cannot run, in one line that `read_ending` finds in the text of the error.

    The line holds all that `failure` says, which has a line for each fault; of too many, only the number of the rest.
    """
    faults = [line.strip() for line in str(failure).splitlines() if line.strip()]
    room = LONGEST_FAULT
    texts: list[str] = []
    for fault in faults:
        room -= len(fault)
        if texts and room < 0:
            break
        texts.append(fault[:LONGEST_FAULT])
    more = [f"and {len(faults) - len(texts)} more"] if len(faults) > len(texts) else []
    return f"{type(failure).__name__}: {'; '.join([*texts, *more])}"


def read_ending(text: str, hosts: Mapping[str, str]) -> Ending:
    """Parse Spark's error text; `hosts` are those of executors by their ids."""
    lost = _LOST.search(text)
    if lost is not None:
        executor = next(group for group in lost.groups() if group).rstrip(":,;")
        host = hosts.get(executor, "")
        where = f" on {host}" if host else ""
        killed = _KILLED.search(text, lost.end())
        if killed is None:
            return Ending(f"an executor was lost{where}", EXECUTOR_LOST, host=host)
        exited = f" (exit code {killed['code']})" if killed["code"] else ""
        reason = f"an executor was killed{where}, as happens when memory runs out{exited}"
        return Ending(reason, EXECUTOR_KILLED, host=host)
    unfit = _UNFIT.search(text)
    if unfit is not None:
        code, _, _ = unfit[1].partition(": ")
        return Ending(unfit[1], code if code.isidentifier() else "unfit", unfit=True)
    raised = [found for found in _RAISED.finditer(text) if not found[0].startswith(_FOREIGN)]
    if raised:
        traceback, place = _TRACEBACK.search(text), _PLACE.search(text)
        return Ending(
            reason=_OWN.sub("", raised[-1][0]),
            code=raised[-1][1].rpartition(".")[2],
            traceback=_readable(traceback[0]) if traceback is not None else "",
            instance=(place[1] or "") if place is not None else "",
            host=place[3] if place is not None else "",
            process_id=int(place[4]) if place is not None else 0,
        )
    if "Python worker exited unexpectedly" in text or "crashed" in text:
        return Ending("a stage process died", "process-died")
    if "BarrierJobSlotsNumberCheckFailed" in text:
        return Ending("the cluster lost slots before the tasks could start", SLOTS_LOST)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Ending(lines[1][:300] if len(lines) > 1 else text[:300])


def _readable(traceback: str) -> str:
    """Return the traceback without Spark's own frames, marks under code, and Spark's text after it."""
    kept: list[str] = []
    foreign = False
    for line in traceback.rstrip().splitlines():
        if line.startswith('  File "'):
            foreign = "/pyspark/" in line
        elif not line.startswith("  "):
            foreign = line.strip().startswith("SQLSTATE")
        if not foreign and line.strip(" ^~"):
            kept.append(line)
    return "\n".join(kept)
