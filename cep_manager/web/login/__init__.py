"""The caller of a request: sessions, tokens, forgery checks, auditing."""
