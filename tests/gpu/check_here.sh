#!/usr/bin/env bash
# Packs a build and checks it on this machine's GPU.
#
# Usage: check_here.sh BUILD_DIR
#   Exit code 77, with the reason, where there is no GPU.
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! ls /dev/nvidia0 /dev/nvidiactl /dev/dxg > /dev/null 2>&1; then
  echo "there is no GPU: $("$build/bin/gpu_benchmark" --probe 2>&1 || true)"
  exit 77
fi
"$here/pack.sh" --build "$build" --out "$build/gpu-check"
exec "$build/gpu-check/device_check.sh" --out "$build/device_check.json"
