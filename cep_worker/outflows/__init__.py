"""Exported streams on their way from publisher stages to consumers, with acknowledgements."""
