"""Results that wait on disk until their checkpoint is complete. `cep_worker.held.held_results` is their entrance."""
