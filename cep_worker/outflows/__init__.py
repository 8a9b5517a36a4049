"""Outflows of exported streams from publisher stages to consumers, with acknowledgements."""
