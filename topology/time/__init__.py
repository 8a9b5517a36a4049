"""Event time and processing time of a stage: watermarks of channels, and the merge of streams by time."""
