#!/usr/bin/env bash
# Our prefill and decode beside llama.cpp's and PyTorch's: one model, one machine, one thread count, in turns. Prints JSON.
#
# Usage: bench/compare_llama_cpp.sh [options]
#   --build DIR           folder of the build (default build); transformer_benchmark is in DIR/bin
#   --model FILE          the GGUF file (default the base model, Q4_1)
#   --work DIR            where the Q8_0 copy of the model is made, once (default run/peers)
#   --llama-python FILE   a Python that has llama_cpp (default $SCD_LLAMA_PYTHON, else python3)
#   --torch-python FILE   a Python that has torch, transformers and gguf (default $SCD_TORCH_PYTHON, else python3)
#   --threads N           of every side (default 2)
#   --turns N             ours, theirs, ours, theirs ... so many times (default 3); medians count
#   --repeats N           runs in one turn, after one to warm up (default 1)
#   --math MODE           of our products: auto (default), f32 or bf16
#   --no-torch            leave PyTorch out
#
# Such Pythons: python3 -m venv run/llama && CMAKE_ARGS=-DGGML_NATIVE=ON run/llama/bin/pip install llama-cpp-python==0.3.36
#               python3 -m venv run/torch && run/torch/bin/pip install torch transformers gguf
#
# Keys: prefill_512_ratio, prefill_2048_ratio, decode_b1_4bit_ratio, decode_b16_ratio: ours over llama.cpp on the file as it
# is (weights stay in its 4-bit blocks on both sides); decode_b1_8bit_ratio, decode_b16_8bit_ratio: the same on a Q8_0 copy;
# prefill_N_torch_ratio and prefill_N_torch_f32_ratio: ours on the file as it is over PyTorch in bf16 and in f32. Decoding
# is 128 steps after 64 tokens, a batch is 16 sequences. tokens_per_s has every run of every side, with the medians.
# Works from any folder; relative paths start at the repository. A machine that does anything else spoils the figures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build model=models/base/SmolLM2-135M-Instruct.Q4_1.gguf work=run/peers threads=2 turns=3 repeats=1 math=auto
llama_python=${SCD_LLAMA_PYTHON:-python3} torch_python=${SCD_TORCH_PYTHON:-python3}
torch_dtypes=(bfloat16 float32)
die() { echo "compare_llama_cpp: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --model) model=${2:?--model needs a file}; shift 2 ;;
    --work) work=${2:?--work needs a folder}; shift 2 ;;
    --llama-python) llama_python=${2:?--llama-python needs a program}; shift 2 ;;
    --torch-python) torch_python=${2:?--torch-python needs a program}; shift 2 ;;
    --threads) threads=${2:?--threads needs a number}; shift 2 ;;
    --turns) turns=${2:?--turns needs a number}; shift 2 ;;
    --repeats) repeats=${2:?--repeats needs a number}; shift 2 ;;
    --math) math=${2:?--math needs a mode}; shift 2 ;;
    --no-torch) torch_dtypes=(); shift ;;
    -h|--help) sed -n '2,25s/^# \{0,1\}//p' bench/compare_llama_cpp.sh; exit 0 ;;
    *) echo "compare_llama_cpp: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done

[ -x "$build/bin/transformer_benchmark" ] || die "no $build/bin/transformer_benchmark: build it first"
[ -f "$model" ] || die "no $model: run models/get_models.sh"
"$llama_python" -c 'import llama_cpp' 2> /dev/null || die "$llama_python has no llama_cpp (see --help)"
"$torch_python" -c 'import gguf' 2> /dev/null || die "$torch_python has no gguf (see --help)"
if [ ${#torch_dtypes[@]} -gt 0 ]; then
  "$torch_python" -c 'import torch, transformers' 2> /dev/null || die "$torch_python has no torch or transformers (see --help)"
fi

exec python3 -B bench/scripts/compare_llama_cpp.py --build "$build" --model "$model" --work "$work" --threads "$threads" \
  --turns "$turns" --repeats "$repeats" --math "$math" --llama-python "$llama_python" --torch-python "$torch_python" \
  --torch-dtypes "${torch_dtypes[@]}"
