"""The write-ahead log: accepted events stay on the worker's disk until a checkpoint contains them.

`store` opens the logs of a worker, `log` is the log of one imported stream.
"""
