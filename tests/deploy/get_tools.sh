#!/usr/bin/env bash
# Makes prometheus, promtool and docker-compose available to the tests of deploy/: where the machine lacks one, its package is
# unpacked into a folder. Nothing is installed (Debian's prometheus package would start a service), and root is not needed.
#
# Usage: get_tools.sh FOLDER     exit status 77 where a tool is not there and apt-get cannot download it
set -euo pipefail
folder=${1:?usage: get_tools.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

packages=()
for tool in promtool docker-compose; do
  command -v "$tool" > /dev/null || [ -x "$folder/usr/bin/$tool" ] || packages+=("$tool")
done
if [ "${#packages[@]}" -eq 0 ]; then
  echo "all tools are there"
  exit 0
fi
command -v apt-get > /dev/null || { echo "no ${packages[*]}, and no apt-get to get them with"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# download [apt option ...]: the packages' files into the working folder.
download() {
  local names=() needed
  for tool in "${packages[@]}"; do
    case "$tool" in
      promtool) names+=(prometheus) ;;
      docker-compose)
        # A Python program: what it depends on and is not installed is unpacked beside it.
        needed=$(apt-get "$@" install --simulate --no-install-recommends docker-compose | awk '/^Inst /{print $2}')
        [ -n "$needed" ] || return 1
        mapfile -t -O "${#names[@]}" names <<< "$needed"
        ;;
    esac
  done
  apt-get "$@" download -qq -o APT::Sandbox::User=root "${names[@]}"
}
if ! download > log 2>&1; then
  # The machine's package lists may be missing or too old: fresh ones, in this folder alone.
  mkdir -p lists/partial cache/archives/partial
  own=(-o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
  { apt-get "${own[@]}" update -qq && download "${own[@]}"; } > log 2>&1 \
    || { cat log; echo "apt-get cannot download ${packages[*]}"; exit 77; }
fi
for package in ./*.deb; do dpkg-deb -x "$package" "$folder"; done
echo "unpacked ${packages[*]}"
