"""Sinks, one module for each type.

`cep_worker.connector_runtime.sink_types` lists the types.
"""
