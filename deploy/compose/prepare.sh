#!/bin/sh
# Makes what the nodes share, once: keys for ZeroMQ, tokens for HTTP, the database's password. Nothing is overwritten.
set -eu
umask 077
database=${DATABASE_SECRETS:-/run/cep-database} # the database's own user reads it there
cd "${SECRETS:-/etc/cep}"

[ -d keys ] || cep keys keys
if [ ! -s pgpass ]; then
    password=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')
    printf '%s' "$password" >"$database/password"
    chmod 644 "$database/password"
    printf 'database:5432:cep:cep:%s\n' "$password" >pgpass
fi
if [ ! -s tokens.json ]; then
    cep token create senders --role sender --file tokens.json >sender.token
    cep token create admin --role admin --file tokens.json >admin.token
fi
echo "The tokens of senders and of the administrator are in the volume 'secrets': sender.token, admin.token."
