"""Sinks: where the events of exported streams go. `cep_worker.sinks.registry` knows their types."""
