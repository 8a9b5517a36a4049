"""`python -m cep_cli` is `cep`."""

from cep_cli.main import main

main()
