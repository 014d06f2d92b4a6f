#!/usr/bin/env bash
# Installs what is needed, gets the base model, builds everything and runs all tests.
#
# Usage: ./run_tests.sh [--preset NAME] [--no-install] [ctest arguments ...]
#   --preset NAME   release (default), debug, asan-ubsan or tsan
#   --no-install    packages are there already
#   the rest        goes to ctest, for example -R tokenizer or -LE slow
#
# Reference data that is not part of the repository is taken from $SCD_SHARED_DIR (default ../shared). Where it is there,
# a skipped test is a failure, but for tests with the label gpu or root; where it is not, tests that need it say so and skip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

preset=release
install=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?--preset needs a name}; shift 2 ;;
    --no-install) install=no; shift ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) break ;;
  esac
done

export SCD_SHARED_DIR=${SCD_SHARED_DIR:-$PWD/../shared}
[ "$install" = no ] || tools/install_dependencies.sh
models/get_models.sh
cmake --preset "$preset"
cmake --build --preset "$preset"

build=$(python3 -c 'import json,sys
for p in json.load(open("CMakePresets.json"))["configurePresets"]:
    if p["name"] == sys.argv[1]: print(p["binaryDir"].replace("${sourceDir}/", ""))' "$preset")
log="$build/run_tests.log"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error "$@" 2>&1 | tee "$log" || status=$?

# Skips: allowed for the labels gpu and root, and where there is no reference data.
skipped=$(sed -n 's/^[[:space:]]*[0-9]* - \(.*\) (Skipped)$/\1/p' "$log")
if [ -n "$skipped" ] && [ -d "$SCD_SHARED_DIR" ]; then
  may_skip=$(ctest --test-dir "$build" -N -L '^(gpu|root)$' | sed -n 's/^ *Test *#[0-9]*: //p')
  bad=$(comm -23 <(sort <<< "$skipped") <(sort <<< "$may_skip"))
  if [ -n "$bad" ]; then
    printf 'run_tests: skipped although the reference data is there:\n%s\n' "$bad" >&2
    [ "$status" -ne 0 ] || status=1
  fi
fi
grep -E '% tests passed' "$log" || true
exit "$status"
