"""The console's page of configurations: what a process uses, and where each key was set."""

from __future__ import annotations

from itertools import groupby

import msgspec
from flask import Blueprint, render_template, request

from cep_manager.monitoring.logs.model import KnownSetting
from cep_manager.web.console.page import Page, page
from cep_manager.web.console.texts.process_list import by_host
from cep_manager.web.ports import ClusterPort

ORIGINS = {
    "default": "default",
    "file": "file",
    "environment": "environment variable",
    "driver": "sent by the driver",
    "given": "given at the start",
}


class SettingRow(msgspec.Struct, frozen=True):
    """A key as the page shows it; `words` are found by a search."""

    key: str
    value: str
    default: str
    changed: bool
    origin: str
    where: str
    unit: str
    meaning: str
    words: str


class Section(msgspec.Struct, frozen=True):
    """The keys of a group, or those that are in none."""

    name: str
    rows: tuple[SettingRow, ...]


def configuration_pages(console: Blueprint, view: ClusterPort) -> None:
    """Add the page; `process` in its address says whose configuration is shown, the manager's without one."""

    @console.get("/configuration")
    @page
    def show_configuration() -> Page:
        insights = view.insights()
        processes = insights.processes()
        chosen = request.args.get("process", "") or next(one.id for one in processes if one.kind == "manager")
        configuration = insights.configuration(chosen)
        return render_template(
            "configuration.html",
            process=configuration.process,
            problem=configuration.problem,
            sections=sections(configuration.settings),
            differing=sum(setting.value != setting.default for setting in configuration.settings),
            hosts=by_host(processes),
            plans=(),
            target="console.show_configuration",
            chosen_process=chosen,
            chosen_plan="",
        )


def sections(settings: tuple[KnownSetting, ...]) -> tuple[Section, ...]:
    """Return the keys by their groups, those of none first; otherwise as they stand. Pure."""
    single = tuple(_row(one) for one in settings if "." not in one.key)
    grouped = groupby((one for one in settings if "." in one.key), lambda one: one.key.rpartition(".")[0])
    groups = tuple(Section(name, tuple(_row(one) for one in rows)) for name, rows in grouped)
    return (Section("", single), *groups) if single else groups


def _row(setting: KnownSetting) -> SettingRow:
    origin = ORIGINS[setting.origin]
    return SettingRow(
        key=setting.key,
        value=setting.value,
        default=setting.default,
        changed=setting.origin != "default",
        origin=origin,
        where=setting.where,
        unit=setting.unit,
        meaning=setting.meaning,
        words=" ".join((setting.key, setting.value, origin, setting.where, setting.meaning)).lower(),
    )
