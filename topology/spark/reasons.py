"""What Spark's error texts mean for a person. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) |Lost executor (\S+) on|[Ee]xecutor (\S+) (?:was )?lost")
_OWN = re.compile(r"^(?:topology|cep_common)\.\w+\.\w+: ")


def readable_reason(text: str, hosts: Mapping[str, str]) -> str:
    """The line of Spark's error text that tells a person what happened; `hosts` are those of executors by their ids."""
    lost = _LOST.search(text)
    if lost is not None:
        executor = next(group for group in lost.groups() if group).rstrip(":,;")
        host = hosts.get(executor)
        return f"an executor was lost on {host}" if host else "an executor was lost"
    python_errors: list[str] = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", text, re.MULTILINE)
    own = [line for line in python_errors if not line.startswith(("py4j", "org.apache.spark", "java."))]
    if own:
        return _OWN.sub("", own[-1])
    if "Python worker exited unexpectedly" in text or "crashed" in text:
        return "a stage process died"
    if "BarrierJobSlotsNumberCheckFailed" in text:
        return "the cluster lost slots before the tasks could start"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[1][:300] if len(lines) > 1 else text[:300]
