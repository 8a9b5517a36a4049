#!/bin/sh
# Installs the programs that the tests start and Debian ships: a Chromium, iproute2's ip, openssl. PostgreSQL is in
# the locked libraries. Without root or apt-get it says what to install; the tests that need it are then left out.
set -eu

missing=""
need() { # need PACKAGE COMMAND [COMMAND ...]: the package is missing when none of the commands is there
    package=$1
    shift
    for command in "$@"; do
        if PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null 2>&1; then return; fi
    done
    missing="$missing $package"
}
need chromium chromium chromium-browser google-chrome
need iproute2 ip
need openssl openssl
if [ -z "$missing" ]; then exit 0; fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing what the tests start:$missing"
    # shellcheck disable=SC2086 - one argument for each package
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
        exit 0
    fi
    echo "setup: installing$missing failed; tests that need them will be left out" >&2
    exit 0
fi
echo "setup: the tests start programs that are not here; tests that need them will be left out. To install them:" >&2
echo "       Debian:         sudo apt-get install$missing" >&2
echo "       Fedora:         sudo dnf install$(echo "$missing" | sed 's/iproute2/iproute/')" >&2
