"""The `cep` command and its verbs. Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 peer unreachable."""

from __future__ import annotations

from importlib import import_module

import click

VERBS = {
    "up": "cep_cli.up:up_command",
    "demo": "cep_cli.demo:demo_command",
    "manager": "cep_cli.processes:manager_command",
    "driver": "cep_cli.processes:driver_command",
    "worker": "cep_cli.processes:worker_command",
    "deploy": "cep_cli.plans:deploy_command",
    "rules": "cep_cli.rules:rules_command",
    "undeploy": "cep_cli.plans:undeploy_command",
    "activate": "cep_cli.plans:activate_command",
    "deactivate": "cep_cli.plans:deactivate_command",
    "rebalance": "cep_cli.plans:rebalance_command",
    "rename": "cep_cli.plans:rename_command",
    "restart": "cep_cli.plans:restart_command",
    "trace": "cep_cli.plans:trace_command",
    "statistics": "cep_cli.plans:statistics_command",
    "release": "cep_cli.plans:release_command",
    "sample": "cep_cli.samples:sample_command",
    "query": "cep_cli.state_queries:query_command",
    "savepoint": "cep_cli.checkpoints:savepoint_command",
    "savepoints": "cep_cli.checkpoints:savepoints_command",
    "checkpoints": "cep_cli.checkpoints:checkpoints_command",
    "exceptions": "cep_cli.health:exceptions_command",
    "errors": "cep_cli.kept_errors:errors_command",
    "wal": "cep_cli.wal:wal_command",
    "workers": "cep_cli.health:workers_command",
    "doctor": "cep_cli.doctor.commands:doctor_command",
    "overview": "cep_cli.overview:overview_command",
    "plans": "cep_cli.plans:plans_command",
    "status": "cep_cli.plans:status_command",
    "operations": "cep_cli.operations:operations_command",
    "processes": "cep_cli.logs:processes_command",
    "logs": "cep_cli.logs:logs_command",
    "config": "cep_cli.logs:config_command",
    "validate": "cep_cli.language:validate_command",
    "query-plan": "cep_cli.language:query_plan_command",
    "explain": "cep_cli.explain:explain_command",
    "send": "cep_cli.events:send_command",
    "listen": "cep_cli.events:listen_command",
    "keys": "cep_cli.keys:keys_command",
    "token": "cep_cli.tokens:token_command",
    "user": "cep_cli.users:user_command",
    "login": "cep_cli.login:login_command",
    "logout": "cep_cli.login:logout_command",
    "simulate": "cep_cli.language:simulate_command",
    "package-dependencies": "cep_cli.package:package_command",
}
"""Where each verb's command is. Only the one that is called is loaded: a manager must not carry the engine."""


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are asked for."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        where = VERBS.get(name)
        if where is None:
            return None
        module, _, attribute = where.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.command(cls=LazyGroup)
def main() -> None:
    """Complex event processing in SiddhiQL on Apache Spark."""
