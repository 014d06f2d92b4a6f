#!/usr/bin/env bash
# Installs what SCD needs to build, test and run, on Debian 12 or Ubuntu 24.04, through apt-get. Packages that are there
# already are left alone; with all of them there nothing is asked of the network.
#
# Usage: tools/install_dependencies.sh [--only-build] [--print]
#   --only-build   without what only tests, benchmarks and the evaluation's report need
#   --print        only list the packages
set -euo pipefail

packages=(
  # tools
  build-essential ca-certificates cmake ninja-build ccache mold pkg-config python3
  # serving: gRPC, Protocol Buffers, Abseil, logs, YAML, command lines, metrics
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev libssl-dev
  libspdlog-dev libyaml-cpp-dev libcli11-dev prometheus-cpp-dev
  # codes shared through Redis or Valkey
  libhiredis-dev
  # numerics (oneDNN's CMake package asks for OpenCL, which its Debian build can use)
  libdnnl-dev ocl-icd-opencl-dev opencl-clhpp-headers libeigen3-dev libhwy-dev
  # models: JSON, digests, tokenizers
  nlohmann-json3-dev libxxhash-dev libpcre2-dev libutf8proc-dev libsentencepiece-dev
)
other_packages=(
  git python3-pip
  # tests and benchmarks
  libgtest-dev libgmock-dev libbenchmark-dev python3-numpy redis-server
  # the evaluation: its report, and links of a given rate for its tests
  python3-matplotlib python3-jinja2 iproute2
  # Debian packages (CPack asks file what is a binary), and the check of manual pages
  file mandoc
  # the folder for a check on a GPU
  patchelf
)

only_build=no
print=no
while [ $# -gt 0 ]; do
  case "$1" in
    --only-build) only_build=yes; shift ;;
    --print) print=yes; shift ;;
    -h|--help) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "install_dependencies: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
[ "$only_build" = yes ] || packages+=("${other_packages[@]}")
if [ "$print" = yes ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

command -v apt-get > /dev/null || {
  echo "install_dependencies: this script knows Debian and Ubuntu only; install the packages that --print lists" >&2
  exit 1
}

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  echo "all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "install_dependencies: run this as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
echo "installed ${#missing[@]} packages"
