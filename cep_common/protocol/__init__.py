"""The wire protocol: all messages between processes, and their codec. `PROTOCOL.md` and the pages here describe it."""
