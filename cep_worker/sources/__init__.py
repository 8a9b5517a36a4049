"""Sources, one module for each type.

`cep_worker.connector_runtime.running_sources` lists the types.
"""
