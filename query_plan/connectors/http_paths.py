"""Paths of HTTP sources. Each tenant has its own prefix, so that tenants cannot take each other's paths."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import unquote, urlsplit

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.registry import Connector, StreamBinding

OF_TENANTS = "/t"
"""The prefix of all tenants but the super tenant: `/t/<tenant>/…`."""
_EVENTS = "/events"

Place = tuple[str, str]
"""`host:port`, empty for the built-in server of workers, and the path."""


def default_path(key: PlanKey, stream: str) -> str:
    """Return the path of a source whose plan sets none."""
    path = f"/{key.plan}/{stream}"
    return path if key.tenant == SUPER_TENANT else f"{OF_TENANTS}/{key.tenant}{path}"


def refuse_path(path: str, tenant: int) -> str:
    """Return the reason why the tenant's plan may not listen at `path`; empty when it may."""
    plain = posixpath.normpath(unquote(path))
    if plain != path.rstrip("/") or path.startswith("//"):
        return f"{path} has another spelling; write {plain}"
    if (plain + "/").startswith(f"{_EVENTS}/"):
        return f"{path} belongs to the worker; choose a path that does not begin with {_EVENTS}/"
    own = f"{OF_TENANTS}/{tenant}/"
    if tenant == SUPER_TENANT:
        reserved = (plain + "/").startswith(f"{OF_TENANTS}/")
        return (
            f"{path} is reserved for tenants; choose a path that does not begin with {OF_TENANTS}/" if reserved else ""
        )
    return "" if plain.startswith(own) else f"{path} must begin with {own}, the prefix of the tenant"


def place_of(url: str, key: PlanKey, stream: str, built_in: Collection[str] = ()) -> Place | None:
    """Return where a source with this `receiver.url` listens; None for an invalid URL.

    `built_in` are the addresses (`host:port`) of the workers' own servers.
    """
    if not url:
        return "", default_path(key, stream)
    try:
        parts = urlsplit(url)
        address = f"{parts.hostname}:{parts.port}"
    except ValueError:
        return None
    return "" if address in built_in else address, parts.path


def path_faults(
    key: PlanKey,
    sources: Iterable[Connector],
    imported: Iterable[StreamBinding],
    others: Iterable[tuple[PlanKey, Iterable[Connector]]],
    built_in: Collection[str],
) -> Iterator[tuple[Connector, str]]:
    """Yield the sources of the plan `key` whose paths are taken, with the reason.

    A path may be used by one of the `others`, or belong to another tenant. Only the owner's tenant sees the owner's
    name.
    """
    tied = {binding.stream for binding in imported}
    held = {
        place: other
        for other, connectors in others
        for one in connectors
        if (place := source_place(one, other, built_in)) is not None
    }
    for source in sources:
        place = source_place(source, key, built_in)
        if place is None or source.stream not in tied:
            continue
        url = source.options.get("receiver.url", "")
        reason = refuse_path(place[1], key.tenant) if url else ""
        holder = held.get(place)
        if not reason and holder is not None:
            who = f"by the plan {holder.plan}" if holder.tenant == key.tenant else "already"
            reason = f"{place[1]} is taken {who}; choose another path, or leave receiver.url out"
        if reason:
            yield source, reason


def source_place(source: Connector, key: PlanKey, built_in: Collection[str]) -> Place | None:
    """Return where a source of the plan listens; None unless it is an HTTP source with its own path."""
    if source.type != "http" or "ref" in source.options:
        return None
    return place_of(source.options.get("receiver.url", ""), key, source.stream, built_in)
