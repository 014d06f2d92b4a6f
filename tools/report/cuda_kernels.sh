#!/usr/bin/env bash
# What the compiler made of the CUDA kernels: registers, spills, shared memory, occupancy, instructions of hot loops and
# excerpts, as docs/measurements/cuda_kernels.md. Needs no GPU.
#
# Usage: tools/report/cuda_kernels.sh [--cuobjdump PROGRAM] [--work DIR] [--out FILE.md]
#   --cuobjdump PROGRAM   default cuobjdump (toolkit; from PyPI: nvidia-cuda-cuobjdump)
#   --work DIR            machine code and listings; default build/cuda_kernels
#   --out FILE.md         default docs/measurements/cuda_kernels.md
#
# Every kernel of kernels/cuda/*.cu is compiled for each architecture of SCD_CUDA_ARCHITECTURES (cmake/Cuda.cmake).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cuobjdump=cuobjdump
work=build/cuda_kernels
out=docs/measurements/cuda_kernels.md
while [ $# -gt 0 ]; do
  case "$1" in
    --cuobjdump) cuobjdump=${2:?--cuobjdump needs a program}; shift 2 ;;
    --work) work=${2:?--work needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a file}; shift 2 ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "cuda_kernels: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
for program in "$nvcc" "$cuobjdump"; do
  command -v "$program" > /dev/null || { echo "cuda_kernels: there is no $program" >&2; exit 1; }
done

mkdir -p "$work"
rm -f "$work"/*.cubin "$work"/*.log "$work"/*.sass
architectures=$(sed -n 's/^set(SCD_CUDA_ARCHITECTURES \([0-9 ]*\) CACHE.*/\1/p' cmake/Cuda.cmake)
flags=(-std=c++20 -O3 -I.)

compile() {
  local source=$1 architecture=$2 name
  name=$work/$(basename "$source" .cu).$architecture
  "$nvcc" "${flags[@]}" "-arch=sm_$architecture" -cubin -Xptxas -v "$source" -o "$name.cubin" 2> "$name.log" ||
    { cat "$name.log" >&2; return 1; }
  "$cuobjdump" -sass "$name.cubin" > "$name.sass"
}
jobs=()
for source in kernels/cuda/*.cu; do
  for architecture in $architectures; do
    compile "$source" "$architecture" &
    jobs+=($!)
    if [ "${#jobs[@]}" -ge "$(nproc)" ]; then
      wait "${jobs[0]}"
      jobs=("${jobs[@]:1}")
    fi
  done
done
for job in "${jobs[@]}"; do wait "$job"; done

"$nvcc" "${flags[@]}" bench/gpu/cuda_blocks.cu -o "$work/cuda_blocks"
"$work/cuda_blocks" > "$work/blocks.tsv"
python3 -B tools/report/cuda_kernels.py "$work" "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')" > "$out.part"
mv "$out.part" "$out"
echo "cuda_kernels: $out"
