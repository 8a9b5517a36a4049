"""Where topologies meet Spark: the driver process and the tasks of its barrier jobs. Nothing else imports pyspark."""
