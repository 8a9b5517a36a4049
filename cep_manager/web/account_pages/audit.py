"""The page of the audit log."""

from __future__ import annotations

from flask import Blueprint, render_template, request

from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.errors import AccountsOffError
from cep_manager.web.account_pages.audit_texts import deed, outcome, through
from cep_manager.web.api.requests import read_number
from cep_manager.web.console.page import Page, page

ROWS = 100


def audit_pages(blueprint: Blueprint, accounts: Accounts | None) -> None:
    """Add the page, also if accounts are switched off."""

    @blueprint.get("/audit")
    @page
    def show_audit() -> Page:
        if accounts is None:
            raise AccountsOffError("this manager keeps no audit log")
        before = read_number(request.args.get("before", "0"), "before")
        who = request.args.get("who", "").strip()
        found = accounts.audit.entries(before, ROWS + 1, who)
        return render_template(
            "accounts/audit.html",
            entries=[entry for _, entry in found[:ROWS]],
            older=found[ROWS - 1][0] if len(found) > ROWS else 0,
            newest=before == 0,
            who=who,
            days=accounts.config.audit_days,
            deed=deed,
            through=through,
            outcome=outcome,
        )
