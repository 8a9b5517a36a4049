"""The status of plans as text, in the layout that CEP's console showed. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

ALL = "all established"


def plan_line(plan: Any) -> str:
    """Return one line for a list of plans."""
    topology = plan["status"]["topology"]
    connected = "all connected" if plan["status"]["connected"] else "not all connected"
    reason = f" ({topology['reason']})" if topology["reason"] else ""
    return f"{plan['topology']:<32} {topology['state']}, {connected}{reason}"


def managers_status(managers: list[Any]) -> str:
    """Return the leader with the time of its election, and the standby managers."""
    return "\n".join(["Managers :", *(f"\t{_manager(manager)}" for manager in managers)])


def _manager(manager: Any) -> str:
    where = f"{manager['control']['host']}:{manager['control']['port']} {manager['http_address']}"
    match manager["role"]:
        case "leader":
            since = datetime.fromtimestamp(manager["since_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            return f"{where} : leads since {since}, token {manager['token']}"
        case "silent":
            return f"{where} : silent for {manager['silent_ms'] // 1000} s"
        case _:
            return f"{where} : standby"


def plan_status(plan: Any) -> str:
    """Return the three parts of the deployment status."""
    status = plan["status"]
    topology, outflow = status["topology"], status["outflow"]
    lines = [f"{plan['topology']}, epoch {plan['epoch']}", f"Topology : {topology['state'].upper()}"]
    lines += [*_notes(status), *_time(plan["plan"], topology)]
    if status["inflow"]:
        lines.append("Inflow connections :")
        lines += [f"\t{one['worker']} : {_share(one['established'], one['required'])}" for one in status["inflow"]]
    else:
        lines.append("Inflow connections : no worker has reported")
    for lost in status["lost_workers"]:
        lines.append(f"\tlost: {lost['worker']} on {lost['host']}, not heard for {lost['silent_ms'] // 1000} s")
    lines.append(f"Outflow connections : {_share(outflow['connected'], outflow['required'])}")
    if status["tasks"]:
        lines.append("Tasks :")
        lines += [f"\t{_task(task)}" for task in status["tasks"]]
    if topics := status.get("topics"):
        lines.append("Topics :")
        lines += [f"\t{_partition(one)}" for one in topics]
    if written := status.get("topics_written"):
        lines.append("Topics written :")
        lines += [f"\t{_written(one)}" for one in written]
    if status["state"]:
        lines.append("State :")
        lines += [f"\t{_held(part)}" for part in status["state"]]
    return "\n".join(lines)


def child_app(one: Any, texts: bool) -> str:
    """Return a child app: its parent, the node that runs it, its streams and topics, and optionally its text."""
    where = "no task runs it yet"
    if one["state"] != "expected":
        silent = ", silent" if one["state"] == "silent" else ""
        where = f"task {one['task']} on {one['host']} (process {one['process_id']}{silent})"
    lines = [f"{one['parent']} → {one['name']} → {where}"]
    for word, streams, topics, rate in (
        ("in", one["inputs"], one["topics_read"], one["received_per_second"]),
        ("out", one["outputs"], one["topics_written"], one["emitted_per_second"]),
    ):
        of = f" (topics {', '.join(topics)})" if topics else ""
        lines.append(f"\t{word:<3} : {', '.join(streams) or 'nothing'}{of}, {rate:,.1f} events/s")
    if texts:
        lines += ["", *(f"\t{line}" if line else "" for line in one["text"].splitlines()), ""]
    return "\n".join(lines)


def _partition(one: Any) -> str:
    """Return a partition of a topic that a source reads."""
    committed = one["committed"] if one["committed"] >= 0 else "nothing yet"
    where = f"{one['topic']}[{one['partition']}] for {one['stream']} at {one['worker']}"
    return f"{where} : lag {one['lag']}, read up to {one['position']} of {one['end']}, committed {committed}"


def _written(one: Any) -> str:
    """Return a topic that a sink writes, with the sink's transactions."""
    line = f"{one['topic']} by {one['stream']} at {one['worker']} : {one['messages']:,} messages"
    if one["committed"] is None:
        return line
    line += f", transactions: {one['committed']:,} committed, {one['aborted']:,} aborted"
    line += f", up to checkpoint {one['checkpoint']}" if one["checkpoint"] else ""
    return line + (", the brokers have not answered the last commit" if one["in_doubt"] else "")


def _notes(status: Any) -> list[str]:
    """Return notes on the topology in addition to its state."""
    topology = status["topology"]
    notes: list[str] = []
    if topology["reason"] and topology["state"] != "degraded":
        notes.append(f"\t{topology['reason']}")
    elif topology["interruption"]:
        notes.append(f"\tinterrupted {topology['interrupted_ms'] // 1000} s ago: {topology['interruption']}")
    notes += [f"\t{_degraded(part)}" for part in status["degraded"]]
    if topology["undeploying"]:
        notes.append(f"\tis being undeployed: {topology['undeploying']}")
    if not topology["intake"] and topology["state"] != "inactive":
        notes.append("\tdeactivated: it accepts no events when it runs")
    if topology["trace"]:
        notes.append("\ttraced: workers write its events to their logs")
    if topology["change_error"]:
        notes.append(f"\tthe last change failed: {topology['change_error']}")
    notes += [f"\tstate was reset: {left}" for left in topology["state_left"]]
    if topology["restarts"]:
        notes.append(f"\trestarts: {topology['restarts']}")
    if topology["last_error"] and not status["degraded"]:
        notes.append(f"\tlast error: {topology['last_error']}")
    return notes


def _degraded(part: Any) -> str:
    """Return a failed sink, source or log: the reason, since when, and what waits for it."""
    kind = {"log": "log of", "results": "log of results"}.get(part["kind"], f"{part['type']} {part['kind']} of")
    since = datetime.fromtimestamp(part["since_ms"] / 1000).astimezone().strftime(" since %Y-%m-%d %H:%M:%S")
    since = since if part["since_ms"] else ""
    waits = f"; {part['waiting_events']:,} events wait" if part["waiting_events"] else ""
    return f"{kind} {part['stream']} at {part['worker']} fails{since}: {part['error']}{waits}".replace("  ", " ")


def _time(plan: str, topology: Any) -> list[str]:
    """Return what time waits for, and late events."""
    lines = [f"\twaiting for {what}" for what in topology["waits_for"]]
    if topology["awaited"]:
        lines.append(f"\t\tto continue without: cep release {plan} {' '.join(topology['awaited'])}")
    late = topology["late"]
    return [*lines, *(f"\tlate: {one['events']} events of {one['stream']}" for one in late)]


def _task(task: Any) -> str:
    """Return where a task runs, what it uses and which stage instances are in it."""
    silent = "" if task["live"] else ", silent"
    used = f"{_size(task['memory_bytes'])}, {task['cpu_ms'] / 1000:.1f} s of processor time"
    shared = f" of stage host {task['stage_host']}" if task.get("stage_host") else ""
    where = f"{task['task']} on {task['host']} (process {task['process_id']}{shared}{silent}; {used})"
    return f"{where} : {', '.join(task['instances'])}"


_COUNTS = {
    "rows": "rows",
    "groups": "groups",
    "partial_matches": "partial matches",
    "dropped_partial_matches": "partial matches dropped",
    "distinct_values": "distinct values",
    "instances": "partition instances",
}


def _held(part: Any) -> str:
    """Return the state of one part of the plan, without counts that are 0."""
    if part["kind"] == "strings":
        return f"strings : {part['rows']:,}, {_size(part['bytes'])}"
    return f"{part['kind']} {part['name']} : {held_counts(part)}"


def held_counts(part: Any) -> str:
    """Return the counts of the part's state."""
    counts = [f"{part[name]:,} {text}" for name, text in _COUNTS.items() if part[name]]
    return ", ".join([*counts, _size(part["bytes"])])


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 100_000 else f"{count / 1_000:.1f} kB"


def _share(established: int, required: int) -> str:
    return ALL if established == required else f"{established}/{required} established"
