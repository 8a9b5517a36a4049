"""Authentication and authorisation: keys, roles, tokens, certificates, and limits of HTTP servers."""
