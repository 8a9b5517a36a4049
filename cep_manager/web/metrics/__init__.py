"""The whole system's figures in Prometheus' text format, as the manager knows them from heartbeats."""
