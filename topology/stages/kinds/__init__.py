"""The kinds of stages: receivers, processors, publishers and triggers, and the stored tables of processors."""
