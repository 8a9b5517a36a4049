"""Inflows of imported streams to receiver stages: batching, watermarks, links, and the write-ahead log."""
