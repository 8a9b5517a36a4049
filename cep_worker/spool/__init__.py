"""The spool: what a worker has accepted stays on its disk until a checkpoint holds it. `folder` opens it."""
