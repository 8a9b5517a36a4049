"""The commands of `cep doctor`."""

from __future__ import annotations

import click

from cep_cli.doctor.kafka import kafka_command
from cep_cli.doctor.security import security_command


@click.group("doctor")
def doctor_command() -> None:
    """Diagnose a system, or the systems that it connects to."""


doctor_command.add_command(kafka_command)
doctor_command.add_command(security_command)
