"""The worker: runs sources and sinks, and connects them with the stages of the topologies.

`main` starts it, `worker` has its two threads, `data_plane` connects the parts of the data thread.
"""
