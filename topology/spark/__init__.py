"""The connection of topologies to Spark: the driver process and the tasks of its barrier jobs.

Nothing else imports pyspark.
"""
