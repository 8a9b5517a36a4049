"""The console's pages for accounts, as one blueprint."""

from __future__ import annotations

from flask import Blueprint, g

from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.errors import AccountsOffError
from cep_manager.web.account_pages.account import account_pages
from cep_manager.web.account_pages.audit import audit_pages
from cep_manager.web.account_pages.login import login_pages
from cep_manager.web.account_pages.users import user_pages
from cep_manager.web.login.account_callers import AccountCallers


def accounts_blueprint(accounts: Accounts | None, callers: AccountCallers | None) -> Blueprint:
    """Return the pages, at the root of the site. They show an error if accounts are switched off."""
    blueprint = Blueprint("accounts", __name__, template_folder="templates")

    def known() -> tuple[Accounts, AccountCallers]:
        if accounts is None or callers is None or not accounts.config.login:
            raise AccountsOffError("accounts are switched off: set accounts.login: true in the manager's configuration")
        return accounts, callers

    login_pages(blueprint, known)
    account_pages(blueprint, known)
    user_pages(blueprint, lambda: known()[0])
    audit_pages(blueprint, accounts)
    blueprint.app_context_processor(lambda: {"log_in": g.get("anybody") is False and accounts is not None})
    return blueprint
