"""Accounts: users and their passwords, sessions and tokens, what they did, and the pages and calls for all of it."""
