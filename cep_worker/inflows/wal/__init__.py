"""The write-ahead log: what a worker has accepted stays on its disk until a checkpoint holds it.

`store` opens the logs of a worker, `log` is the log of one imported stream.
"""
