"""The `cep` command and its verbs. Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 peer unreachable."""

from __future__ import annotations

from importlib import import_module

import click

VERBS = {
    "up": "cep_cli.system.up:up_command",
    "node": "cep_cli.node.commands:node_command",
    "demo": "cep_cli.system.demo:demo_command",
    "manager": "cep_cli.system.processes:manager_command",
    "driver": "cep_cli.system.processes:driver_command",
    "worker": "cep_cli.system.processes:worker_command",
    "deploy": "cep_cli.plan_commands.plans:deploy_command",
    "rules": "cep_cli.plan_commands.rules:rules_command",
    "undeploy": "cep_cli.plan_commands.plans:undeploy_command",
    "activate": "cep_cli.plan_commands.plans:activate_command",
    "deactivate": "cep_cli.plan_commands.plans:deactivate_command",
    "rebalance": "cep_cli.plan_commands.plans:rebalance_command",
    "scaling": "cep_cli.monitor.scaling:scaling_command",
    "rename": "cep_cli.plan_commands.plans:rename_command",
    "restart": "cep_cli.plan_commands.plans:restart_command",
    "trace": "cep_cli.plan_commands.plans:trace_command",
    "statistics": "cep_cli.plan_commands.plans:statistics_command",
    "release": "cep_cli.plan_commands.plans:release_command",
    "sample": "cep_cli.develop.samples:sample_command",
    "query": "cep_cli.develop.state_queries:query_command",
    "savepoint": "cep_cli.plan_commands.checkpoints:savepoint_command",
    "savepoints": "cep_cli.plan_commands.checkpoints:savepoints_command",
    "checkpoints": "cep_cli.plan_commands.checkpoints:checkpoints_command",
    "exceptions": "cep_cli.monitor.health:exceptions_command",
    "errors": "cep_cli.monitor.failed_events:errors_command",
    "wal": "cep_cli.monitor.wal:wal_command",
    "workers": "cep_cli.monitor.health:workers_command",
    "doctor": "cep_cli.doctor.commands:doctor_command",
    "overview": "cep_cli.monitor.overview:overview_command",
    "plans": "cep_cli.plan_commands.plans:plans_command",
    "status": "cep_cli.plan_commands.plans:status_command",
    "operations": "cep_cli.monitor.operations:operations_command",
    "processes": "cep_cli.monitor.logs:processes_command",
    "logs": "cep_cli.monitor.logs:logs_command",
    "config": "cep_cli.monitor.logs:config_command",
    "validate": "cep_cli.develop.language:validate_command",
    "query-plan": "cep_cli.develop.language:query_plan_command",
    "explain": "cep_cli.develop.explain:explain_command",
    "send": "cep_cli.develop.events:send_command",
    "listen": "cep_cli.develop.events:listen_command",
    "keys": "cep_cli.security.keys:keys_command",
    "client-key": "cep_cli.security.keys:client_key_command",
    "token": "cep_cli.security.tokens:token_command",
    "user": "cep_cli.security.users:user_command",
    "login": "cep_cli.security.login:login_command",
    "logout": "cep_cli.security.login:logout_command",
    "simulate": "cep_cli.develop.language:simulate_command",
    "package-dependencies": "cep_cli.system.package:package_command",
}
"""The module of each command. Only the called one is imported, so that a manager does not load the engine."""


class LazyGroup(click.Group):
    """A group whose commands are imported lazily."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Return the command `name` after importing its module, None if there is no such command."""
        where = VERBS.get(name)
        if where is None:
            return None
        module, _, attribute = where.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.command(cls=LazyGroup)
def main() -> None:
    """Complex event processing in SiddhiQL on Apache Spark."""
