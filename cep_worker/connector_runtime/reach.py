"""Which destinations plans may access from this worker.

The configured lists allow destinations. Some resources of the system are refused in any case.
"""

from __future__ import annotations

from pathlib import Path

from cep_common.reach.guard import Guard
from cep_worker.config import WorkerConfig

STAGES_PORTS = range(14_000, 18_000)
"""The default ports of drivers and stages, which may run on this host."""


def worker_guard(config: WorkerConfig) -> Guard:
    """Return the guard of a worker's sources and sinks."""
    security = config.security
    paths = (
        *(config.wal.path, config.results.path, config.errors.path, config.file_sources.positions),
        *(config.log.folder, config.artefacts.sources, config.artefacts.sinks),
        *(security.keys, security.tokens, security.certificate_key),
        *(config.secrets, *config.protected),
    )
    shared = {(config.ingress.host, config.ingress.port)}
    managers = {(endpoint.host, endpoint.port) for endpoint in config.manager_endpoints()}
    own = {(config.http.host, config.http.port), (config.egress.host, config.egress.port), *shared, *managers}
    return Guard(
        config.reach(),
        protected=tuple(str(Path(path).absolute()) for path in paths if path),
        own=own,
        own_ports=(
            range(config.outflow.first_port, config.outflow.last_port + 1),
            range(config.log.first_port, config.log.last_port + 1),
            STAGES_PORTS,
        ),
        shared=shared,
    )
