#!/bin/sh
# Makes the virtual environment $1 with the locked versions of all libraries, and sees to a Java that Spark can use.
set -eu
venv=$1
python=${PYTHON:-python3}

"$python" - <<'PY' || { echo "setup: Python 3.11 or newer is needed; name it with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY

java_major() {
    java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1
}

if [ -n "${JAVA_HOME:-}" ]; then PATH="$JAVA_HOME/bin:$PATH"; fi
major=$(command -v java >/dev/null 2>&1 && java_major || true)
if [ "${major:-0}" -lt 17 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing Java 17 (openjdk-17-jre-headless), which Spark needs"
        apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null
    else
        echo "setup: Spark needs Java 17 or newer, and none was found (java on the PATH, or JAVA_HOME)." >&2
        echo "       Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless" >&2
        echo "       Fedora, RHEL:   sudo dnf install java-17-openjdk-headless" >&2
        exit 1
    fi
fi

echo "setup: making $venv with the locked libraries (a few minutes the first time)"
"$python" -m venv "$venv" || { echo "setup: python3-venv is missing; Debian: sudo apt-get install python3-venv" >&2; exit 1; }
"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.lock
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
# A container's environment often forbids Python to write compiled code, and every process would compile it anew.
"$venv/bin/python" -m compileall -q cep_cli cep_common cep_manager cep_worker query_plan siddhi topology
echo "setup: compiling the engine's loops, and archiving the classes that Spark loads"
"$venv/bin/python" -m topology.warm_up &
compiling=$!
"$venv/bin/python" -m topology.spark.driver_side.java_options 2>"$venv/classes.log" \
    || echo "setup: archiving failed (see $venv/classes.log); all works without, Spark starts some seconds later" >&2
wait "$compiling"
