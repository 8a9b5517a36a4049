"""A second host on this machine: a network namespace with an address, a loopback and a port range of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from standalone_cluster import Host


class NoSecondHostError(Exception):
    """The system does not let us make one; the message says which command it refused and why."""


@dataclass(frozen=True, slots=True)
class Network:
    """This host and a second one, with names and addresses that no other process of tests uses."""

    namespace: str
    our_end: str
    its_end: str
    here: Host
    there: Host

    @classmethod
    def of_process(cls) -> Network:
        number = os.getpid()
        block = f"10.213.{number // 64 % 256}"
        first = 4 * (number % 64)
        namespace = f"cep-{number}"
        return cls(
            namespace,
            f"here-{number}",
            f"there-{number}",
            Host(f"{block}.{first + 1}"),
            Host(f"{block}.{first + 2}", ("ip", "netns", "exec", namespace)),
        )

    @property
    def hosts(self) -> tuple[Host, Host]:
        return self.here, self.there

    def cut(self) -> None:
        """Nothing reaches the second host, and nothing leaves it."""
        _run(f"ip -n {self.namespace} link set {self.its_end} down")

    def join(self) -> None:
        """The second host is there again."""
        _run(f"ip -n {self.namespace} link set {self.its_end} up")

    def set_up(self) -> None:
        """The second host is there. Raises NoSecondHostError when the system does not allow it."""
        for command in (
            f"ip netns add {self.namespace}",
            f"ip link add {self.our_end} type veth peer name {self.its_end} netns {self.namespace}",
            f"ip address add {self.here.address}/30 dev {self.our_end}",
            f"ip link set {self.our_end} up",
            f"ip -n {self.namespace} address add {self.there.address}/30 dev {self.its_end}",
            f"ip -n {self.namespace} link set {self.its_end} up",
            f"ip -n {self.namespace} link set lo up",
        ):
            _run(command)

    def tear_down(self) -> None:
        """The second host is no longer there."""
        for command in (f"ip netns del {self.namespace}", f"ip link del {self.our_end}"):
            try:
                _run(command)
            except NoSecondHostError:
                continue  # what was not made need not go


@contextmanager
def two_hosts() -> Iterator[Network]:
    """This host by the address at which the second one reaches it, and the second one. NoSecondHostError when the
    system does not allow it."""
    if os.geteuid() != 0:
        raise NoSecondHostError("network namespaces need root")
    network = Network.of_process()
    try:
        network.set_up()
        yield network
    finally:
        network.tear_down()


def _run(command: str) -> None:
    try:
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)  # noqa: S603 - our own
    except FileNotFoundError as error:
        raise NoSecondHostError(f"{command}: there is no such command") from error
    if done.returncode != 0:
        raise NoSecondHostError(f"{command}: {done.stderr.strip()}")
