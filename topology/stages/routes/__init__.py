"""Where the results of a stage go: keys, instances, and the links to instances in other tasks."""
