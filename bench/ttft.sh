#!/usr/bin/env bash
# Time to first token by prefix length, through both daemons on loopback, with the shipped pair. Prints JSON.
#
# Usage: bench/ttft.sh [options]
#   --build DIR          folder of the build (default build)
#   --bundle DIR         the pair's bundle (default run/bundle; quickstart.sh and tools/reproduce_results.sh fit one)
#   --model FILE         of the bare prefill (default the base model)
#   --threads N          of native prefill and of the consumer with codes ready (default 2)
#   --math MODE          of all products: auto (default), f32 or bf16
#   --repeats N          requests of each; medians count (default 5)
#   --tokens "N ..."     prefix lengths (default "128 256 512 1024 2048")
#   --modes "MODE ..."   ways of handing over (default "scd reuse")
#   --parts "PART ..."   any of ready, cold and shared (default all)
#   --producer-set A.B=C, --consumer-set A.B=C   further settings of a daemon; repeatable
#
# For each mode and length, native_head 1 and native_tail 16:
#   native_ms            the consumer's own prefill, with all threads
#   codes_ready_ms       the same threads, codes from the producer's store; the consumer shares no pages between requests
#   cold_ms              codes made for the request: producer and consumer have one core each, which they are held to
#   producer_prefill_ms  prefill of the same length on the producer's core without codes, network or consumer
#   decode_step_ms       one decode step after it; cold_over_bare is cold_ms over the sum of the two
# Times are from the client's call to its first token. shared_prefix: 8 clients ask different questions about one prefix of
# 1,500 tokens at once; producer_prefilled_tokens are those that the producer computed for all of them together.
# Works from any folder; relative paths start at the repository. A machine that does anything else spoils the figures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build bundle=run/bundle model=models/base/SmolLM2-135M-Instruct.Q4_1.gguf threads=2 math=auto repeats=5
tokens="128 256 512 1024 2048" modes="scd reuse" parts="ready cold shared"
settings=()
die() { echo "ttft: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --bundle) bundle=${2:?--bundle needs a folder}; shift 2 ;;
    --model) model=${2:?--model needs a file}; shift 2 ;;
    --threads) threads=${2:?--threads needs a number}; shift 2 ;;
    --math) math=${2:?--math needs a mode}; shift 2 ;;
    --repeats) repeats=${2:?--repeats needs a number}; shift 2 ;;
    --tokens) tokens=${2:?--tokens needs numbers}; shift 2 ;;
    --modes) modes=${2:?--modes needs names}; shift 2 ;;
    --parts) parts=${2:?--parts needs names}; shift 2 ;;
    --producer-set|--consumer-set) settings+=("$1" "${2:?$1 needs a setting}"); shift 2 ;;
    -h|--help) sed -n '2,25s/^# \{0,1\}//p' bench/ttft.sh; exit 0 ;;
    *) echo "ttft: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done

for program in scd-producer scd-consumer scd-client transformer_benchmark; do
  [ -x "$build/bin/$program" ] || die "no $build/bin/$program: build it first"
done
[ -f "$bundle/manifest.json" ] || die "no bundle in $bundle (--bundle)"
[ -f "$model" ] || die "no $model: run models/get_models.sh"

# shellcheck disable=SC2086  # lists of words
exec python3 -B bench/scripts/ttft.py --bin "$build/bin" --bundle "$bundle" --model "$model" --threads "$threads" \
  --math "$math" --repeats "$repeats" --tokens $tokens --modes $modes --parts $parts "${settings[@]}"
