"""Sources: where the events of imported streams come from. `cep_worker.sources.running` knows their types."""
