#!/usr/bin/env bash
# Measures everything that docs/RESULTS.md says, on the shipped pair, and writes that page.
#
# Usage: tools/reproduce_results.sh [options]
#   --build DIR      folder of the build (default build); scd-eval and its siblings are in DIR/bin
#   --shared DIR     folder with data/calibration.jsonl, data/eval_lm.jsonl, data/eval_qa.jsonl (default ../shared)
#   --out DIR        where bundle, results and report go (default run/results)
#   --bundle DIR     take this bundle instead of fitting one
#   --windows N      text windows (default 10); --questions N: questions (default 90); 0: all
#   --llama-python FILE, --torch-python FILE   Pythons for bench/compare_llama_cpp.sh (its --help says what they need); without
#                    both the page has no comparison with llama.cpp and PyTorch
#   --no-sizes       leave out the ablation of the calibration size, which fits four further bundles
#   --fresh          measure again what was measured before (the bundle too)
#   --quick          a smoke run of minutes on little data, with a bundle good for nothing else; leaves docs/ alone
#
# A step whose result is in --out is not done again, so that a run that was stopped goes on where it was. Measurements over
# links of 100 Mbit/s, 1 and 10 Gbit/s need root (tools/link.sh); without it the report has computed times for them.
# A full run takes hours on two cores, most of it fitting. Works from any folder; relative paths start at the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build shared=../shared out=run/results bundle='' windows=10 questions=90 sizes=yes fresh=no quick=no llama_python='' torch_python=''
die() { echo "reproduce_results: $*" >&2; exit 1; }
say() { printf '\n== %s (%d s since start)\n' "$1" "$SECONDS"; }

while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --shared) shared=${2:?--shared needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --bundle) bundle=${2:?--bundle needs a folder}; shift 2 ;;
    --windows) windows=${2:?--windows needs a number}; shift 2 ;;
    --questions) questions=${2:?--questions needs a number}; shift 2 ;;
    --llama-python) llama_python=${2:?--llama-python needs a file}; shift 2 ;;
    --torch-python) torch_python=${2:?--torch-python needs a file}; shift 2 ;;
    --no-sizes) sizes=no; shift ;;
    --fresh) fresh=yes; shift ;;
    --quick) quick=yes; shift ;;
    -h|--help) sed -n '2,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "reproduce_results: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done

bin=$build/bin
for program in scd-eval scd-calibrate scd-producer scd-consumer scd-client; do
  [ -x "$bin/$program" ] || die "no $bin/$program: build first (cmake --preset release && cmake --build --preset release)"
done
for file in calibration eval_lm eval_qa; do
  [ -f "$shared/data/$file.jsonl" ] || die "no $shared/data/$file.jsonl (--shared)"
done
[ -f models/base/SmolLM2-135M-Instruct.Q4_1.gguf ] || die "no base model: run models/get_models.sh"
mkdir -p "$out"

# What all fits have in common: the pair's calibration prefixes, both ranks of Patch codes, eight candidate layers of which
# the six most sensitive are the plan's default.
corpus="corpus.sources=[{jsonl: $shared/data/calibration.jsonl}]"
ranks_h="ranks.h=[288, 576]"
candidates="patch.candidates=[20, 18, 19, 23, 24, 26, 28, 27]"
layers="patch.layers=[20, 18, 19, 23, 24, 26]"
fit=(--config configs/calibrate.yaml --set math=f32 --set "$layers")
common=(--config configs/eval.yaml --set "data.windows.path=$shared/data/eval_lm.jsonl"
        --set "data.questions.path=$shared/data/eval_qa.jsonl")
# One way of each kind; the links are measured where this machine allows it, computed where not.
latency=(--set "latency.rows=[\"raw, re-roped\", \"4 bits, re-roped\", reuse, scd, fused]")
ablate=() drift=() distortions=(0.01 0.02 0.04 0.08)
sizes_list="[25, 60, 120, 240]"
if [ "$quick" = yes ]; then
  corpus="corpus.sources=[{jsonl: $shared/data/calibration.jsonl, limit: 12}]"
  ranks_h="ranks.h=[64]"
  candidates="patch.candidates=[20, 18]"
  fit=(--config configs/calibrate.yaml --set math=f32 --set "patch.layers=[20]" --set corpus.max_prefix_tokens=96
       --set corpus.hold_out_every=6 --set aligner.max_epochs=1 --set aligner.mlp_width=64 --set measure.sweep_prefixes=1
       --set measure.quality_prefixes=1 --set selective.prefixes=1 --set "selective.sizes=[10]")
  windows=1 questions=1 sizes_list="[6, 12]" distortions=(0.04)
  common+=(--set eval.ready_questions=1)
  latency=(--set "latency.prefix_tokens=[64, 256]" --set latency.repeats=1 --set "latency.rows=[raw, scd]")
  ablate=(--set "ablate.rank_k=[64, 96]" --set "ablate.rank_v=[128]" --set ablate.windows=1 --set ablate.questions=1
          --set ablate.ready_questions=1 --set ablate.max_patch_layers=2)
  drift=(--set drift.prefixes=2 --set drift.decode_positions=8)
fi
common+=(--questions "$questions")
# Drift estimates on one half of its prefixes and measures on the other.
drift+=(--windows "$((windows == 1 ? 2 : windows))")

# Whether OUT/NAME.json is of a whole run: one that was interrupted writes what it has, and says so.
is_whole() { [ -f "$out/$1.json" ] && ! grep -qE '^  "(interrupted|error)":' "$out/$1.json"; }

# Whether NAME need not be measured again; says so, or that it begins.
measured() {
  if [ "$fresh" = no ] && is_whole "$1"; then
    say "$1: measured before"
  else
    say "$1"
    return 1
  fi
}

# once NAME COMMAND...: runs COMMAND --json OUT/NAME.json, unless that is there.
once() {
  local name=$1
  shift
  measured "$name" && return
  rm -f "$out/$name.json"
  "$@" --json "$out/$name.json"
}

# printed NAME COMMAND...: the same for a command that prints its JSON.
printed() {
  local name=$1
  shift
  measured "$name" && return
  "$@" > "$out/$name.json.new"
  mv "$out/$name.json.new" "$out/$name.json"
}

if [ -z "$bundle" ]; then
  bundle=$out/bundle
  if [ "$fresh" = yes ] || [ ! -f "$bundle/manifest.json" ]; then
    say "bundle"
    rm -rf "$bundle"
    "$bin/scd-calibrate" "${fit[@]}" --set "$corpus" --set "$ranks_h" --set "$candidates" --set "output=$bundle" \
      --set "work_dir=$out/calibrate-work"
  else
    say "bundle: fitted before"
  fi
fi
[ -f "$bundle/manifest.json" ] || die "no bundle in $bundle"
# scd-eval starts the daemons with this bundle. Quality is that of the models in f32, as in the independent measurement;
# times are those of the weights as the daemons keep them.
fast=(--bundle "$bundle" --producer-set math=f32 --consumer-set math=f32)
pair=("${fast[@]}" --producer-set model.weights=f32 --consumer-set model.weights=f32)

ttft=(bench/ttft.sh --build "$build" --bundle "$bundle" --math f32)
rebuild=("$bin/translate_benchmark" --model models/base/SmolLM2-135M-Instruct.Q4_1.gguf --tokens 512 2048)
peers=(bench/compare_llama_cpp.sh --build "$build" --math f32 --llama-python "$llama_python" --torch-python "$torch_python")
if [ "$quick" = yes ]; then
  ttft+=(--tokens 64 --modes scd --repeats 1)
  rebuild=("${rebuild[@]:0:3}" --tokens 64 --repeats 1)
  peers+=(--turns 1)
fi
printed ttft "${ttft[@]}"
speed=(--ttft "$out/ttft.json" --dense "$out/table.json" --kept "$out/table-auto.json")
if [ -x "$bin/translate_benchmark" ]; then
  once rebuild "${rebuild[@]}"
  speed+=(--rebuild "$out/rebuild.json")
fi
if [ -n "$llama_python" ] && [ -n "$torch_python" ]; then printed peers "${peers[@]}"; fi
if is_whole peers; then speed+=(--peers "$out/peers.json"); fi

once table "$bin/scd-eval" table "${common[@]}" --windows "$windows" "${pair[@]}"
# The same codes in every codec, and fused at every distortion; times are those of the main table.
equal="group: equal, native_head: 1, native_tail: 16"
once codecs "$bin/scd-eval" table "${common[@]}" --windows "$windows" "${pair[@]}" --set eval.ready_questions=0 \
  --set "eval.codecs=[bf16, int8, int4, entropy]" \
  --set "rows=[{mode: local, name: local}, {mode: reuse, name: reuse, $equal}, {mode: scd, name: scd, $equal}]"
fused=()
for distortion in "${distortions[@]}"; do
  fused+=("{mode: fused, name: \"fused, D $distortion\", codec: entropy, distortion: $distortion, $equal}")
done
once distortions "$bin/scd-eval" table "${common[@]}" --windows "$windows" "${pair[@]}" --set eval.ready_questions=0 \
  --set "rows=[{mode: local, name: local}$(printf ', %s' "${fused[@]}")]"
once table-auto "$bin/scd-eval" table "${common[@]}" --windows "$windows" "${fast[@]}" --set eval.ready_questions=0 \
  --set "rows=[{mode: local, name: local}, {mode: reuse, name: Reuse, native_head: 1, native_tail: 16}, {mode: scd, name: SCD, native_head: 1, native_tail: 16}]"
once latency-loopback "$bin/scd-eval" latency "${common[@]}" --windows "$windows" "${fast[@]}" "${latency[@]}"

# Over real links: the daemons in namespaces of their own, scd-eval beside the consumer.
producer="$bin/scd-producer --config configs/producer.yaml --set 'bundles=[$bundle]'"
producer+=" --set server.listen={producer_ip}:7070 --set metrics.listen=off --set math=f32"
consumer="$bin/scd-consumer --config configs/consumer.yaml --set 'bundle=$bundle' --set producer.address={producer_ip}:7070"
consumer+=" --set server.listen=127.0.0.1:7071 --set metrics.listen=off --set math=f32"
for link in 100mbit:100 1gbit:1000 10gbit:10000; do
  rate=${link%%:*} mbit=${link##*:} status=0
  measure=(tools/link.sh --rate "$rate" --producer "$producer" --consumer "$consumer"
    --ready "$bin/scd-client health --address {producer_ip}:7070" --ready "$bin/scd-client health --address 127.0.0.1:7071"
    -- "$bin/scd-eval" latency "${common[@]}" --windows "$windows" "${latency[@]}" --consumer 127.0.0.1:7071 --link-mbit "$mbit")
  once "latency-$rate" "${measure[@]}" || status=$?
  if [ "$status" -eq 77 ]; then
    echo "no measurement over links here: the report has computed times instead"
    break
  fi
  [ "$status" -eq 0 ] || exit "$status"
done

run_ablations="ablate.run=[ranks, rank_h, patch_layers]"
if [ "$sizes" = yes ]; then
  run_ablations="ablate.run=[ranks, rank_h, patch_layers, calibration_prefixes]"
  # One rank of h, six candidates: what the measured plan needs.
  settings="\"math=f32\", \"$corpus\""
  for setting in "${fit[@]:4}"; do
    [ "$setting" = --set ] || settings+=", \"$setting\""
  done
  if [ "$quick" = yes ]; then settings+=", \"$ranks_h\", \"$candidates\""; else settings+=", \"${layers/layers/candidates}\""; fi
  ablate+=(--set "ablate.calibrate_set=[$settings]" --set "ablate.calibrate_folder=$out/calibrations"
           --set "ablate.calibration_prefixes=$sizes_list")
  mkdir -p "$out/calibrations"
fi
once ablate "$bin/scd-eval" ablate "${common[@]}" --windows "$windows" "${pair[@]}" --set "$run_ablations" "${ablate[@]}"
once drift "$bin/scd-eval" drift "${common[@]}" "${pair[@]}" "${drift[@]}"

say "report"
documents=("$out/codecs.json" "$out/distortions.json" "$out/table.json" "$out/latency-loopback.json")
for rate in 100mbit 1gbit 10gbit; do
  if is_whole "latency-$rate"; then documents+=("$out/latency-$rate.json"); fi
done
documents+=("$out/ablate.json" "$out/drift.json")
"$bin/scd-eval" report --report "$out/report" "${documents[@]}"

page=docs/RESULTS.md
[ "$quick" = no ] || page=$out/RESULTS.md
# The page has a title of its own; sections of the report follow its head.
prefixes=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["calibration"]["num_prefixes"])' "$bundle/manifest.json")
{ sed "s/{prefixes}/$prefixes/" tools/report/results_head.md; tail -n +2 "$out/report/report.md"; echo; python3 tools/report/speed.py "${speed[@]}"; } > "$page.new"
mv "$page.new" "$page"
[ "$quick" = yes ] || python3 tools/report/performance_model.py  # holds its formulas against the times on that page
say "done: $page and $out/report/report.html"
