"""The contract of windows and the parts from which windows are built."""
