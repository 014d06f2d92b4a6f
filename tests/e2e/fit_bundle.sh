#!/usr/bin/env bash
# Fits the bundle of an end-to-end fixture, unless program, configuration and corpus are those it was fitted with.
#
# Usage: fit_bundle.sh PROGRAM CONFIG OUTPUT_NAME FOLDER [CORPUS_FILE LIMIT]
#   Works in the repository's root. The bundle becomes FOLDER/OUTPUT_NAME-bundle.
#   Exit code 77 where the base model or the corpus is not there (a skipped test).
set -euo pipefail
program=$1 config=$2 name=$3 folder=$4
settings=(--set "output=$folder/$name-bundle" --set "work_dir=$folder/$name-work")

base=models/base/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -f "$base" ]; then
  echo "no $base: run models/get_models.sh"
  exit 77
fi
inputs=("$program" "$config" "$base")
if [ $# -gt 4 ]; then
  if [ ! -f "$5" ]; then
    echo "no $5"
    exit 77
  fi
  inputs+=("$5")
  settings+=(--set "corpus.sources=[{jsonl: $5, limit: $6}]")
fi

stamp=$folder/$name-bundle.stamp
fingerprint=$(cat "${inputs[@]}" | sha256sum)
if [ -f "$folder/$name-bundle/manifest.json" ] && [ "$(cat "$stamp" 2> /dev/null)" = "$fingerprint" ]; then
  echo "fitted before"
  exit 0
fi
mkdir -p "$folder"
rm -rf "$folder/$name-bundle" "$stamp"
"$program" --config "$config" "${settings[@]}"
echo "$fingerprint" > "$stamp"
