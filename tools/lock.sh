#!/bin/sh
# Writes requirements.lock: the newest versions of all libraries, the development tools included, that fit pyproject.toml.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --upgrade "setuptools>=77"
"$work/venv/bin/pip" install --quiet --editable ".[dev]"
{
    echo "# Made by tools/lock.sh from pyproject.toml; do not edit."
    "$work/venv/bin/pip" freeze --all --exclude-editable | grep -v '^pip=='
} > requirements.lock
