#!/usr/bin/env bash
# Prints what a result is of: the machine, how busy it is, and the commit.
set -euo pipefail
cd "$(dirname "$0")"
dirty=$(git diff --quiet HEAD -- .. || echo ", with changes")
echo "machine: $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(go version | cut -d' ' -f3-4), commit $(git log -1 --format='%h (%s)')$dirty, $(date -u +%F)"
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
