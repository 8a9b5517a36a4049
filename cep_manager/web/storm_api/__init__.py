"""Storm UI's REST API over this system, so that what was made for Storm's goes on working. docs/storm-api.md tells how
its notions map on ours."""
