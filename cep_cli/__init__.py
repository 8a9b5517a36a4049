"""The `cep` command: starts the processes, deploys plans, sends and shows events, tests plans."""
