"""The whole system's metrics in Prometheus' text format, as the manager knows them from heartbeats."""
