"""Storm UI's REST API over this system, so that tools made for Storm keep working.

docs/storm-api.md maps Storm's terms to those of this system.
"""
