"""Access to a running system: the REST client, stored tokens, common options, listening to streams."""
