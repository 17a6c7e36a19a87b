#!/bin/sh
# Makes .venv beside the README with prspark in it, and Java if the machine has none: sh conf/setup.sh [EXTRAS]
set -eu
cd "$(dirname "$0")/.."

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi; }

# install a Debian package if this machine is one; otherwise say what is missing and where to get it
need() {
    package=$1 what=$2
    echo "setup: $what is missing, installing $package" >&2
    if command -v apt-get >/dev/null && as_root apt-get update -qq >/dev/null &&
        DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "$package" >/dev/null; then
        return
    fi
    echo "setup: $what is missing and could not be installed here; install it and run this again" >&2
    exit 2
}

java_version() { "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'; }
python_is_new() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

java=$(java_version || true)
if [ "${java:-0}" -lt 17 ]; then need openjdk-17-jre-headless "Java 17 or newer"; fi

python=
for candidate in python3 python3.13 python3.12 python3.11 python3.14; do
    if python_is_new "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then need python3 "Python 3.11 or newer"; python=python3; fi

if [ ! -x .venv/bin/pip ]; then
    rm -rf .venv
    "$python" -m venv .venv >/dev/null 2>&1 || { need python3-venv "Python's venv module"; rm -rf .venv; "$python" -m venv .venv; }
fi
.venv/bin/pip install --quiet --disable-pip-version-check --editable ".${1:+[$1]}"
