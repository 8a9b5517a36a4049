"""Storage shared by the logs of a worker: records, checksummed JSON, group commit, damaged and orphaned files."""
