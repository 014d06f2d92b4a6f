#!/usr/bin/env bash
# Both daemons on one GPU with the tiny pair: answers through codes must be the tokens of the consumer's own prefill.
#
# Usage: end_to_end.sh FOLDER [PLUGIN]
#   FOLDER as pack.sh makes it; PLUGIN: another libscd_cuda.so
set -euo pipefail
folder=$1
plugin=${2:-}
bin=$folder/bin
logs=$(mktemp -d)
pids=()
cleanup() {
  [ "${#pids[@]}" -eq 0 ] || kill "${pids[@]}" 2> /dev/null || true
  wait
  rm -rf "$logs"
}
trap cleanup EXIT
trap 'exit 143' TERM INT
fail() {
  echo "end_to_end: $*"
  tail -n 5 "$logs"/*.log
  exit 1
}

# start NAME ARGUMENT...: a daemon with `device: cuda`, on a free port, which becomes $port.
start() {
  local name=$1 line
  shift
  "$bin/$name" --config "$folder/configs/${name#scd-}.yaml" --set device=cuda --set "cuda.plugin=\"$plugin\"" \
    --set cuda.scratch_mib=16 --set cuda.memory_mib=256 --set kv_cache.memory_mib=64 --set math=f32 \
    --set "model.path=$folder/pair/model" --set server.listen=127.0.0.1:0 \
    --set metrics.listen=127.0.0.1:0 "$@" > "$logs/$name.log" 2>&1 &
  pids+=($!)
  for _ in {1..600}; do
    line=$(grep -m 1 'listens on' "$logs/$name.log" || true)
    [ -z "$line" ] || break
    kill -0 "${pids[-1]}" 2> /dev/null || fail "$name ended at start"
    sleep 0.1
  done
  [ -n "$line" ] || fail "$name did not start"
  [[ $line == *cuda:* ]] || fail "$name does not run on the GPU: $line"
  port=$(sed -n 's/.*listens on [^ ,]*:\([0-9]*\),.*/\1/p' <<< "$line")
  echo "$line"
}

start scd-producer --set "bundles=[$folder/pair/bundle]" --set prefill.max_prompt_tokens=512
start scd-consumer --set 'model.adapter=""' --set "bundle=$folder/pair/bundle" \
  --set "producer.address=127.0.0.1:$port" --set plan.codec=f32

prompt=
for i in {0..59}; do prompt+=$(((i * 37 + 11) % 250)),; done
# ask MODE: the answer's tokens become $tokens, those of the prompt that came as codes $transferred.
ask() {
  "$bin/scd-client" generate -a "127.0.0.1:$port" --ids "${prompt%,}" --mode "$1" --policy require --no-prefix-cache \
    -n 16 --ignore-eos --json -q > "$logs/answer.json" 2> "$logs/client.log" || fail "mode $1 was refused"
  tokens=$(sed -n 's/^ *"id": \([0-9]*\).*/\1/p' "$logs/answer.json" | tr '\n' ' ')
  transferred=$(sed -n 's/^ *"transferred_tokens": \([0-9]*\).*/\1/p' "$logs/answer.json")
  echo "$1: tokens $tokens, $transferred of 60 by codes, first token after" \
    "$(sed -n 's/^ *"first_token_ms": \([0-9.]*\).*/\1/p' "$logs/answer.json") ms"
}

ask local
native=$tokens
[ -n "$native" ] || fail "the native answer is empty"
for mode in scd reuse fused; do
  ask "$mode"
  [ "$tokens" = "$native" ] || fail "mode $mode answers otherwise than native prefill"
  [ "$transferred" -gt 40 ] || fail "mode $mode used $transferred tokens of codes"
done

for pid in "${pids[@]}"; do
  kill "$pid"
  wait "$pid" || fail "a daemon ended with $?"
done
pids=()
