"""What runs on Spark executors: the Python daemon, tasks, stage hosts and the monitor that ends hung processes."""
