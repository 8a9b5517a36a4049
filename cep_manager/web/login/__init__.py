"""Who makes a request: sessions, tokens, forgery checks, auditing."""
