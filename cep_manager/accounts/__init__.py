"""Accounts: users and their passwords, sessions, tokens, and the audit log."""
