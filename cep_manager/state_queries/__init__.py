"""On-demand queries about what the stages of running plans hold."""
