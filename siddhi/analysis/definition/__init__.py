"""Definitions of an app: streams, tables, windows, triggers and functions, with their annotations."""
