"""Commands that watch a running system."""
