"""The driver process: the Spark session, its jobs, and the execution of the manager's orders."""
