#!/usr/bin/env bash
# Whether the kernels compute the same on 64-bit Arm (NEON): cross-compiles them with their tests and runs those under
# qemu-user. Results only; an emulator says nothing about speed.
#
# Usage: tests/neon/check_neon.sh [--work DIR] [--jobs N] [gtest arguments ...]
#   --work DIR   where libraries and build go (default run/neon); kept, so that a next run only builds what changed
#   --jobs N     compilers at a time (default: one for each core)
#   the rest     goes to the tests, for example --gtest_filter='*Parity*'
#
# Needs (apt-get install): g++-aarch64-linux-gnu qemu-user cmake ninja-build pkg-config. The arm64 libraries (Abseil, oneDNN,
# Highway, GoogleTest) are downloaded with apt from where this machine's own packages come from and unpacked below DIR;
# nothing is installed and apt's own state stays as it is. Exit status: of the tests; 77 where a tool is missing. The first
# run builds for some minutes and the tests take two, so this is no part of ctest: run it where a kernel changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=run/neon jobs=$(nproc)
while [ $# -gt 0 ]; do
  case "$1" in
    --work) work=${2:?--work needs a folder}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    -h|--help) sed -n '2,15s/^# \{0,1\}//p' tests/neon/check_neon.sh; exit 0 ;;
    *) break ;;
  esac
done
for tool in aarch64-linux-gnu-g++ qemu-aarch64 cmake ninja pkg-config apt-get dpkg-deb; do
  command -v "$tool" > /dev/null || { echo "check_neon: no $tool (see --help)" >&2; exit 77; }
done
mkdir -p "$work"
work=$(cd "$work" && pwd)
root=$work/root

if [ ! -f "$work/unpacked" ]; then
  echo "== libraries for arm64"
  rm -rf "$root" "$work/apt"
  mkdir -p "$root" "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial"
  touch "$work/apt/status"
  apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
       -o "Dir::State=$work/apt/state" -o "Dir::State::status=$work/apt/status" -o "Dir::Cache=$work/apt/cache")
  "${apt[@]}" update > "$work/apt/log" 2>&1 || { tail "$work/apt/log" >&2; exit 1; }
  # Fetched by name: what they depend on is in the cross compiler, or not needed to run tests.
  (cd "$work/apt" && "${apt[@]}" download libabsl-dev libabsl20220623 libdnnl-dev libdnnl2 libhwy-dev libhwy1 libgtest-dev \
    libgmock-dev googletest > log 2>&1) || { tail "$work/apt/log" >&2; exit 1; }
  for package in "$work"/apt/*.deb; do dpkg-deb -x "$package" "$root"; done
  touch "$work/unpacked"
fi

echo "== build"
cmake -S tests/neon -B "$work/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/tests/neon/toolchain.cmake" \
  -DSCD_ARM64_ROOT="$root" > "$work/configure.log" 2>&1 || { tail -n 30 "$work/configure.log" >&2; exit 1; }
ninja -C "$work/build" -j "$jobs" --quiet kernels_test

echo "== tests under qemu-aarch64"
exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$root/usr/lib/aarch64-linux-gnu" \
  "$work/build/bin/kernels_test" --gtest_brief=1 "$@"
