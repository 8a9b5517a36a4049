"""A second host on this machine: a network namespace with an address, a loopback and a port range of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from standalone_cluster import Host

NAMESPACE = "cep-second-host"
HERE, THERE = "10.213.77.1", "10.213.77.2"
OUR_END, ITS_END = "cep-here", "cep-there"

SET_UP = (
    f"ip netns add {NAMESPACE}",
    f"ip link add {OUR_END} type veth peer name {ITS_END} netns {NAMESPACE}",
    f"ip address add {HERE}/30 dev {OUR_END}",
    f"ip link set {OUR_END} up",
    f"ip -n {NAMESPACE} address add {THERE}/30 dev {ITS_END}",
    f"ip -n {NAMESPACE} link set {ITS_END} up",
    f"ip -n {NAMESPACE} link set lo up",
)
TEAR_DOWN = (f"ip netns del {NAMESPACE}", f"ip link del {OUR_END}")


class NoSecondHostError(Exception):
    """The system does not let us make one; the message says which command it refused and why."""


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """This host by the address at which the second one reaches it, and the second one. NoSecondHostError when the
    system does not allow it."""
    if os.geteuid() != 0:
        raise NoSecondHostError("network namespaces need root")
    _undo()
    try:
        for command in SET_UP:
            _run(command)
        yield Host(HERE), Host(THERE, ("ip", "netns", "exec", NAMESPACE))
    finally:
        _undo()


def _run(command: str) -> None:
    try:
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)  # noqa: S603 - our own
    except FileNotFoundError as error:
        raise NoSecondHostError(f"{command}: there is no such command") from error
    if done.returncode != 0:
        raise NoSecondHostError(f"{command}: {done.stderr.strip()}")


def _undo() -> None:
    for command in TEAR_DOWN:
        try:
            _run(command)
        except NoSecondHostError:
            continue  # what was not made need not go
