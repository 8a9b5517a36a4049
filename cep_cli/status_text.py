"""The status of plans as text, in the layout that CEP's console showed. Pure."""

from __future__ import annotations

from typing import Any

ALL = "all established"


def plan_line(plan: Any) -> str:
    """One line for a list of plans."""
    topology = plan["status"]["topology"]
    connected = "all connected" if plan["status"]["connected"] else "not all connected"
    reason = f" ({topology['reason']})" if topology["reason"] else ""
    return f"{plan['topology']:<32} {topology['state']}, {connected}{reason}"


def plan_status(plan: Any) -> str:
    """The three parts of the deployment status."""
    status = plan["status"]
    topology, outflow = status["topology"], status["outflow"]
    lines = [f"{plan['topology']}, epoch {plan['epoch']}", f"Topology : {topology['state'].upper()}"]
    if topology["reason"]:
        lines.append(f"\t{topology['reason']}")
    elif topology["interruption"]:
        lines.append(f"\tinterrupted {topology['interrupted_ms'] // 1000} s ago: {topology['interruption']}")
    if topology["restarts"]:
        lines.append(f"\trestarts: {topology['restarts']}")
    if topology["last_error"]:
        lines.append(f"\tlast error: {topology['last_error']}")
    if status["inflow"]:
        lines.append("Inflow connections :")
        lines += [f"\t{one['worker']} : {_share(one['established'], one['required'])}" for one in status["inflow"]]
    else:
        lines.append("Inflow connections : no worker has reported")
    for lost in status["lost_workers"]:
        lines.append(f"\tlost: {lost['worker']} on {lost['host']}, not heard for {lost['silent_ms'] // 1000} s")
    lines.append(f"Outflow connections : {_share(outflow['connected'], outflow['required'])}")
    return "\n".join(lines)


def _share(established: int, required: int) -> str:
    return ALL if established == required else f"{established}/{required} established"
