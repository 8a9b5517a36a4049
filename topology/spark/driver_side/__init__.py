"""The driver process: the Spark session, the jobs that run in it, and what the driver does for the manager."""
