#!/usr/bin/env bash
# Checks the cuda backend on this machine's GPU in less than 6 minutes, from the folder that pack.sh made. Needs bash,
# the driver and CUDA's libcublasLt.
#
# Usage: device_check.sh [--out FILE.json] [--plugin LIB] [--quick] [--seconds N]
#   --out FILE.json   what was found, a whole document after every step; default device_check.json beside this script
#   --plugin LIB      another libscd_cuda.so; the sanitizers, which know GPUs alone, are left out
#   --quick           a part of the parity suite and a tiny model, to check this script
#   --seconds N       time for all steps together; default 345
#
# Exit code: 0 when every step passed, 77 (and why) where there is no GPU, else 1.
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

readonly tail_bytes=3000
total_ms=345000
out=$here/device_check.json
plugin=
quick=
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out=${2:?--out needs a file}; shift 2 ;;
    --plugin) plugin=$(readlink -f "${2:?--plugin needs a file}"); shift 2 ;;
    --quick) quick=yes; shift ;;
    --seconds) total_ms=$((${2:?--seconds needs a number} * 1000)); shift 2 ;;
    -h|--help) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "device_check: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
bin=$here/bin
if [ ! -x "$bin/gpu_benchmark" ] || [ ! -f "$here/MANIFEST" ]; then
  echo "device_check: $here was not made by pack.sh" >&2
  exit 2
fi

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
start_ms=$(now_ms)
left_ms() { echo $((start_ms + total_ms - $(now_ms))); }
seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }
# Text as a JSON string: ASCII alone, the end of it.
json_string() {
  local text
  text=$(tr -cd '\11\12\40-\176' | tail -c "$tail_bytes")
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\t'/ }
  printf '"%s"' "${text//$'\n'/\\n}"
}
json_of() { printf '%s' "$1" | json_string; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
steps=()
failed=
reason=
complete=false

write_report() {
  local ok=false list= step
  if [ "$complete" = true ] && [ -z "$failed" ]; then ok=true; fi
  for step in "${steps[@]}"; do list+=${list:+,}$'\n  '$step; done
  {
    printf '{\n "ok": %s,\n "complete": %s,\n "reason": %s,\n' "$ok" "$complete" "$(json_of "$reason")"
    printf ' "revision": %s,\n' "$(sed -n 's/^# made by .* revision //p' "$here/MANIFEST" | json_string)"
    printf ' "machine": %s,\n' "$({ uname -srm; nvidia-smi -L; } 2> /dev/null | json_string)"
    printf ' "quick": %s,\n "seconds": %s,\n' "$([ -n "$quick" ] && echo true || echo false)" \
      "$(seconds $(($(now_ms) - start_ms)))"
    printf ' "steps": [%s\n ]\n}\n' "$list"
  } > "$out.part" && mv "$out.part" "$out"
}

# add_step NAME STATUS EXIT_CODE MS REASON LOG [FIGURES_FILE]
add_step() {
  local figures=null
  [ -n "${7:-}" ] && [ -s "$7" ] && figures=$(< "$7")
  steps+=("{\"name\": \"$1\", \"status\": \"$2\", \"exit\": $3, \"seconds\": $(seconds "$4"),
   \"reason\": $(json_of "$5"), \"output\": $(json_string < "$6"), \"figures\": $figures}")
  case "$2" in passed|skipped) ;; *) failed+=" $1" ;; esac
  write_report
  echo "$1: $2 after $(seconds "$4") s${5:+ ($5)}"
}

skip_step() { add_step "$1" skipped 0 0 "$2" /dev/null; }

# run_step NAME LIMIT_S FIGURES_FILE COMMAND...; what it printed stays in $work/NAME.log, its exit code in $exit_code.
run_step() {
  local name=$1 limit=$2 figures=$3 begin left status=passed why=
  shift 3
  left=$(($(left_ms) / 1000))
  if [ "$left" -lt 2 ]; then
    add_step "$name" timeout 124 0 "no time was left for it" /dev/null
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  begin=$(now_ms)
  timeout -k 5 "$limit" "$@" > "$work/$name.log" 2>&1 < /dev/null
  exit_code=$?
  case "$exit_code" in
    0) ;;
    124|137) status=timeout; why="stopped after $limit s" ;;
    *) status=failed; why="exit code $exit_code" ;;
  esac
  if [ "$status" = failed ] && grep -q 'Device not supported' "$work/$name.log"; then
    status=skipped
    why="this tool does not support the device here"
  fi
  add_step "$name" "$status" "$exit_code" $(($(now_ms) - begin)) "$why" "$work/$name.log" "$figures"
}

finish() {
  write_report
  echo "device_check: $2, $out"
  exit "$1"
}

has_gpu() { ls /dev/nvidia0 /dev/nvidiactl /dev/dxg 2> /dev/null | grep -q .; }

# Where libcublasLt is, when the loader does not know. Linked from a folder of its own: nothing else is taken from
# where it lies.
find_cublaslt() {
  local name found
  name=$(ldd "$bin/libscd_cuda.so" 2> /dev/null | sed -n 's/^\s*\(libcublasLt[^ ]*\) => not found.*/\1/p')
  [ -n "$name" ] || return 0
  found=$(ls -d /usr/local/cuda*/lib64/"$name" /usr/local/cuda*/targets/*/lib/"$name" \
    /usr/lib/*/nvidia/*/"$name" 2> /dev/null | head -1)
  [ -n "$found" ] || found=$(timeout 20 find / -xdev -name "$name" -print -quit 2> /dev/null)
  [ -n "$found" ] || return 0
  mkdir "$work/cublaslt"
  ln -s "$found" "$work/cublaslt/$name"
  export LD_LIBRARY_PATH=$work/cublaslt${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

find_sanitizer() {
  command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer \
    /usr/local/cuda*/compute-sanitizer/compute-sanitizer /opt/nvidia/*/compute-sanitizer 2> /dev/null | head -1
}

if ! { [ -f "$here/lib/.whole" ] || { tar -C "$here" -xzf "$here/lib.tar.gz" && touch "$here/lib/.whole"; }; }; then
  failed=unpack
  reason="lib.tar.gz cannot be unpacked in $here"
  finish 1 "$reason"
fi
find_cublaslt
plugin_argument=()
if [ -n "$plugin" ]; then
  export SCD_CUDA_PLUGIN=$plugin
  plugin_argument=(--plugin "$plugin")
fi

# 1. The device.
exit_code=0
run_step device 40 "" "$bin/gpu_benchmark" --probe "${plugin_argument[@]}"
if [ -n "$failed" ]; then
  reason=$(tail -n 3 "$work/device.log")
  if [ "$exit_code" -eq 3 ] && [ -z "$plugin" ] && ! has_gpu; then finish 77 "there is no GPU: $reason"; fi
  finish 1 "$reason"
fi
sed 's/^/  /' "$work/device.log"

# 2. Every op against the reference.
parity_filter='*'
[ -z "$quick" ] || parity_filter='CudaBackendTest.*:CudaModelTest.Plain:*PointwiseParity*:*ProductParity*:*EveryRank*'
run_step parity 90 "" "$bin/cuda_device_test" --gtest_brief=1 "--gtest_filter=$parity_filter"

# 3. Both daemons.
run_step end_to_end 60 "" "$here/end_to_end.sh" "$here" "$plugin"

# 4. Speed.
benchmark_s=150
[ $(($(left_ms) / 1000)) -ge $benchmark_s ] || benchmark_s=$(($(left_ms) / 1000))
shape=(--limit-seconds $((benchmark_s > 30 ? benchmark_s - 20 : 10)))
[ -z "$quick" ] || shape=(--shape tiny --scratch-mib 4 --repeats 1 --turn-seconds 0.2)
run_step benchmark "$benchmark_s" "$work/figures.json" "$bin/gpu_benchmark" "${plugin_argument[@]}" "${shape[@]}" \
  --work "$work" --json "$work/figures.json"

# 5. What the sanitizers see of every kernel.
sanitizer=$(find_sanitizer)
for tool in memcheck racecheck; do
  if [ -n "$plugin" ]; then
    skip_step "$tool" "another plug-in was given"
  elif [ -z "$sanitizer" ]; then
    skip_step "$tool" "there is no compute-sanitizer"
  else
    run_step "$tool" 75 "" "$sanitizer" --tool "$tool" --error-exitcode 9 "$bin/cuda_device_test" --gtest_brief=1 \
      --gtest_filter='CudaThreadOrderTest.*'
  fi
done

complete=true
[ -z "$failed" ] || { reason="failed:$failed"; finish 1 "$reason"; }
finish 0 "all steps passed"
