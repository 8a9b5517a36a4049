"""Check the security of a system by its settings. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cep_cli.doctor.sockets import ListeningSocket
from cep_common.configuration.redaction import COVER
from query_plan.secrets import secrets_of

Weight = Literal["critical", "warning"]
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class SecurityFinding:
    """A finding. `where` is a process, plan, user or file; `remedy` names the setting or command that fixes it."""

    weight: Weight
    where: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """A process, its settings by dotted key, and the listening sockets of it and its child processes.

    `unseen` says why these are unknown.
    """

    id: str
    kind: str
    settings: Mapping[str, Any]
    sockets: Sequence[ListeningSocket] = ()
    unseen: str = ""

    def text(self, key: str) -> str:
        """Return the setting as text; empty where there is none."""
        value = self.settings.get(key)
        return "" if value is None else str(value)

    def entries(self, key: str) -> list[str]:
        """Return the entries of a setting that is a list."""
        value = self.settings.get(key)
        return [str(one) for one in value] if isinstance(value, list) else []

    def is_on(self, key: str) -> bool:
        """Return whether the setting is true."""
        return self.settings.get(key) is True


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a running system.

    `plans` are texts by name, `modes` the permissions of files and folders that should be private, `new_users` those
    who have not chosen a password of their own, `unbounded_keys` the files by which workers know clients of any tenant.
    """

    processes: Sequence[ProcessFacts] = ()
    plans: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    new_users: Sequence[str] = ()
    unbounded_keys: Sequence[str] = ()


def findings_of(facts: Facts) -> list[SecurityFinding]:
    """Return all deviations from the checklist of docs/security.md, critical ones first."""
    found = [one for process in facts.processes for check in CHECKS for one in check(process)]
    found += _plans(facts.plans)
    found += _modes(facts.modes)
    found += [
        SecurityFinding(
            "critical",
            f"user {name}",
            "still has the password from the first start or from a reset",
            "log in, or disable it",
        )
        for name in facts.new_users
    ]
    found += [
        SecurityFinding("warning", path, "lets clients send and listen for any tenant",
                        "create restricted keys (`cep client-key`) and remove the file from workers")
        for path in facts.unbounded_keys
    ]  # fmt: skip
    return sorted(dict.fromkeys(found), key=lambda one: (one.weight != "critical", one.where, one.problem))


def _open_to_all(process: ProcessFacts) -> Iterator[SecurityFinding]:
    if process.unseen:
        yield SecurityFinding(
            "warning", process.id, f"was not checked: {process.unseen}", "run this command as its user on its host"
        )
    if process.is_on("security.insecure"):
        yield SecurityFinding(
            "critical",
            process.id,
            "accepts requests from other hosts without authentication",
            "remove security.insecure",
        )
    if process.kind == "manager" and process.settings.get("accounts.login") is False:
        beyond = not _is_loopback(process.text("http.host"))
        weight: Weight = "critical" if beyond else "warning"
        yield SecurityFinding(weight, process.id, "does not require a login", "set accounts.login: true")


def _doors(process: ProcessFacts) -> Iterator[SecurityFinding]:
    """Check keys, tokens and certificates of sockets that other hosts can reach."""
    hosts = {key: process.text(key) for key in ("host", "http.host", "ingress.host", "egress.host", "outflow.host")}
    beyond = [key for key, host in hosts.items() if host and not _is_loopback(host)]
    if process.kind == "task" or not process.settings:
        return
    if not process.text("security.keys"):
        weight: Weight = "critical" if beyond else "warning"
        yield SecurityFinding(weight, process.id, "has no keys: ZeroMQ connections are neither encrypted nor "
"authenticated",
                      "create keys with `cep keys` and set security.keys to their folder")  # fmt: skip
    if process.kind == "worker" and not process.text("security.tokens"):
        weight = "critical" if not _is_loopback(hosts["http.host"]) else "warning"
        yield SecurityFinding(weight, process.id, "accepts events over HTTP without authentication",
                      "create tokens with `cep token` and set security.tokens to their file")  # fmt: skip
    served = hosts["http.host"] or process.text("metrics.host")
    if served and not _is_loopback(served) and not process.text("security.certificate"):
        yield SecurityFinding("critical", process.id, f"sends passwords and tokens unencrypted from {served}",
                      "set security.certificate and security.certificate_key")  # fmt: skip


def _sockets(process: ProcessFacts) -> Iterator[SecurityFinding]:
    keys = bool(process.text("security.keys"))
    for one in process.sockets:
        if one.is_loopback():
            continue
        java = "java" in one.command.partition(" ")[0]
        if ipaddress.ip_address(one.address).is_unspecified:
            yield SecurityFinding("critical", process.id, f"listens on all addresses at {one.where()}",
                          "configure one address; docs/listening-sockets.md lists the keys")  # fmt: skip
        elif java or not keys:
            remedy = "set spark.authenticate in spark.conf" if java else "set security.keys"
            yield SecurityFinding("warning", process.id, f"listens beyond loopback at {one.where()}", remedy)


def _spark(process: ProcessFacts) -> Iterator[SecurityFinding]:
    conf = process.settings.get("spark.conf")
    if process.kind != "driver" or not isinstance(conf, Mapping):
        return
    if str(conf.get("spark.ui.enabled", "false")) == "true":
        yield SecurityFinding("critical", process.id, "Spark's web UI is enabled without authentication",
                      "remove spark.ui.enabled from spark.conf")  # fmt: skip
    if str(conf.get("spark.ui.killEnabled", "false")) == "true":
        yield SecurityFinding("critical", process.id, "topologies can be killed from Spark's web UI",
                      "remove spark.ui.killEnabled from spark.conf")  # fmt: skip
    local = process.text("spark.master").startswith("local")
    if not local and str(conf.get("spark.authenticate", "false")) != "true":
        yield SecurityFinding("critical", process.id, "Spark's executors are not authenticated",
                      "set spark.authenticate and spark.network.crypto.enabled in spark.conf")  # fmt: skip


def _allowances(process: ProcessFacts) -> Iterator[SecurityFinding]:
    """Check allow lists for entries that allow everything."""
    for key in ("sinks.folders", "file_sources.folders", "password_files.folders"):
        wide = [one for one in process.entries(key) if one in ("/", "/etc", "/home", "/root", "/var", "/tmp")]  # noqa: S108
        if wide:
            yield SecurityFinding("critical", process.id, f"lets plans use files in {', '.join(wide)}", f"narrow {key}")
    for key in ("sinks.urls", "sources.urls"):
        wide = [one for one in process.entries(key) if "*" in one.partition("://")[2].partition(":")[0] or one == "*"]
        if any(not one.partition("://")[2].startswith("*.") for one in wide):
            yield SecurityFinding(
                "critical", process.id, f"lets plans reach any host ({', '.join(wide)})", f"narrow {key}"
            )
    for key in ("store_urls", "stages.store_urls"):
        if process.is_on(key):
            yield SecurityFinding("critical", process.id, "lets plans use any database", "set stages.store_urls: false")
    for key in ("script", "stages.script"):
        scripts = process.settings.get(key)
        on = [name for name, allowed in scripts.items() if allowed is True] if isinstance(scripts, Mapping) else []
        on += [name for name in ("python", "javascript") if process.is_on(f"{key}.{name}")]
        if on:
            yield SecurityFinding(
                "warning", process.id, f"runs scripts of plans ({', '.join(on)})", f"switch off {key}"
            )


CHECKS: tuple[Callable[[ProcessFacts], Iterator[SecurityFinding]], ...] = (
    _open_to_all,
    _doors,
    _sockets,
    _spark,
    _allowances,
)


def _plans(plans: Mapping[str, str]) -> Iterator[SecurityFinding]:
    for name, text in plans.items():
        if secrets_of(text) or COVER in text:
            yield SecurityFinding(
                "warning", f"plan {name}", "holds a password or another secret", "write ${secret:NAME} for it"
            )


def _modes(modes: Mapping[str, int]) -> Iterator[SecurityFinding]:
    for path, mode in modes.items():
        if mode & _OTHERS:
            weight: Weight = "critical" if mode & 0o007 else "warning"
            yield SecurityFinding(weight, path, f"others may use it (mode {mode & 0o777:o})", f"chmod go= {path}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
