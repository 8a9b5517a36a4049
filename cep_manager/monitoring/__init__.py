"""Monitoring of a running system: status, alerts, metrics, logs, failed events."""
