#!/bin/sh
# Steps of building the image: `install.sh python | java | environment FOLDER`.
set -eu

packages() {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/tmp/apt.log || {
        cat /tmp/apt.log >&2
        exit 1
    }
    rm -rf /var/lib/apt/lists/* /tmp/apt.log
}

case $1 in
python)
    # ensurepip is what Debian splits off into python3-venv.
    python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || packages python3 python3-venv
    ;;
java)
    # The JRE's package expects a folder for manual pages that slim images lack.
    mkdir -p /usr/share/man/man1
    command -v java >/dev/null || packages openjdk-17-jre-headless
    ;;
environment)
    python3 -m venv "$2"
    "$2/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir /tmp/wheel .
    wheel=$(ls /tmp/wheel/cep_on_spark-*.whl)
    "$2/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
        --constraint requirements.lock "$wheel[javascript,kafka,postgresql,schemas]"
    # Compiled once here instead of at each start of a container.
    cd "$2"
    "$2/bin/python" -m topology.warm_up
    "$2/bin/python" -m topology.spark.driver_side.java_options || echo "install: no archive of Spark's classes: processes start some seconds later" >&2
    ;;
*)
    echo "install.sh: unknown step $1" >&2
    exit 2
    ;;
esac
