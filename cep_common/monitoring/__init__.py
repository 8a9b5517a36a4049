"""Building blocks of monitoring: metric families, latency buckets and rate-limited log lines."""
