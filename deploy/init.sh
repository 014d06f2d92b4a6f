#!/usr/bin/env bash
# Fills the models volume: gets the base model of the shipped pair and fits the bundle. Does nothing when both are there.
# A run that was stopped goes on where it was.
#
# Usage: scd-init [--refit]      --refit: fit the bundle again where there is one (the old one stays until the new is whole)
# Environment: SCD_GET_MODELS=yes|no   no: the models are in /local, and config/calibrate.yaml names them
set -euo pipefail

models=${SCD_MODELS_DIR:-/models}
local_models=${SCD_LOCAL_DIR:-/local}
share=${SCD_SHARE_DIR:-/usr/share/scd}
config=${SCD_CALIBRATE_CONFIG:-/etc/scd/calibrate.yaml}
model_name=SmolLM2-135M-Instruct.Q4_1.gguf
fitted_with=$models/bundle.calibrate.yaml

say() { echo "init: $*"; }
die() { echo "init: $*" >&2; exit 1; }

# Runs a program so that a stop of the container reaches it.
run() {
  local status=0
  "$@" &
  child=$!
  trap 'kill -TERM "$child" 2> /dev/null || true' TERM INT
  wait "$child" || status=$?
  while [ -d "/proc/$child" ]; do
    status=0
    wait "$child" || status=$?
  done
  trap - TERM INT
  return "$status"
}

refit=no
case "${1:-}" in
  "") ;;
  --refit) refit=yes ;;
  -h|--help) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) die "unknown argument '$1' (see --help)" ;;
esac

[ -w "$models" ] || die "user $(id -u) may not write to the models folder: chown it to $(id -u), or set SCD_MODELS=models in .env"
# What is fetched is larger than a /tmp in memory should be.
export TMPDIR=$models/.tmp HOME=/tmp PIP_NO_CACHE_DIR=1
rm -rf "$TMPDIR"
mkdir -p "$TMPDIR"
trap 'rm -rf "$TMPDIR"' EXIT

case "${SCD_GET_MODELS:-yes}" in
  yes)
    from=()
    if [ -f "$local_models/$model_name" ]; then
      say "base model: from the local folder"
      from=(--from "$local_models/$model_name")
    else
      say "base model"
    fi
    run "$share/models/get_models.sh" --to "$models/base" "${from[@]}" \
      || die "no base model. Without a network: put $model_name into the folder SCD_LOCAL_MODELS of .env"
    ;;
  no) say "base model: your own, from the local folder" ;;
  *) die "SCD_GET_MODELS in .env is '$SCD_GET_MODELS', expected yes or no" ;;
esac

if [ "$refit" = no ] && [ -f "$models/bundle/manifest.json" ]; then
  say "bundle: is there"
  if [ -f "$fitted_with" ] && ! cmp -s "$fitted_with" "$config"; then
    say "bundle: config/calibrate.yaml has changed since it was fitted; to fit it again: docker-compose run --rm init --refit"
  fi
else
  say "bundle: fitting the translators of the pair"
  status=0
  run scd-calibrate --config "$config" || status=$?
  [ "$status" -ne 137 ] || die "scd-calibrate was killed: it most likely took more memory than SCD_INIT_MEMORY of .env allows"
  [ "$status" -eq 0 ] || die "the bundle was not fitted; what was done is kept, and the next start goes on from there"
  cp "$config" "$fitted_with.new"
  mv "$fitted_with.new" "$fitted_with"
fi
say "done"
