"""The executors' side of Spark: the Python daemon, tasks, stage hosts and the monitor that ends hung processes."""
