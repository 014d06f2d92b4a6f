#!/usr/bin/env bash
# Packs what a check on a GPU needs into one folder, for a machine that has the driver and CUDA's libraries and nothing
# else: programs, the libraries that they need (but glibc's and libcublasLt), a tiny pair and device_check.sh.
#
# Usage: tests/gpu/pack.sh [--build DIR] [--out FOLDER] [--limit-mb N]
#   --build DIR      a build of the project with CUDA; default build
#   --out FOLDER     made anew; default DIR/gpu-check
#   --limit-mb N     an error above so many MB; default 60
#
# There: FOLDER/device_check.sh. Needs patchelf, strip and a built write_tiny_pair, which makes the pair.
set -euo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$source_dir/../.." && pwd)

build=$root/build
out=
limit_mb=60
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --limit-mb) limit_mb=${2:?--limit-mb needs a number}; shift 2 ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "pack: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
out=${out:-$build/gpu-check}
fail() { echo "pack: $*" >&2; exit 1; }
command -v patchelf > /dev/null || fail "there is no patchelf (package patchelf)"

programs=(scd-producer scd-consumer scd-client cuda_device_test gpu_benchmark libscd_cuda.so)
for program in "${programs[@]}" write_tiny_pair; do
  [ -f "$build/bin/$program" ] || fail "$build/bin/$program is not there: build the target first"
done
if [ -e "$out" ]; then
  [ -f "$out/MANIFEST" ] || [ -z "$(ls -A "$out")" ] || fail "$out is there and was not made by this script"
  rm -rf "$out"
fi
mkdir -p "$out/bin" "$out/lib" "$out/pair" "$out/configs"

# needs FILE: names and paths of the libraries that it loads, but what every Linux with glibc has and what the machine
# with the GPU brings.
needs() {
  ldd "$1" | sed -n 's/^\s*\([^ ]*\) => \([^ ]*\).*/\1 \2/p' |
    grep -vE '^(lib(c|m|dl|pthread|rt|resolv)\.so\.|ld-linux|libcublasLt\.so\.)' || true
}

for program in "${programs[@]}"; do
  install -m 755 "$build/bin/$program" "$out/bin/$program"
  while read -r name path; do
    [ -f "$path" ] || fail "$program needs $name, which is not here"
    [ -f "$out/lib/$name" ] || install -m 644 "$(readlink -f "$path")" "$out/lib/$name"
  done < <(needs "$build/bin/$program")
done
strip --strip-unneeded "$out"/bin/* "$out"/lib/*
# An RPATH, not a RUNPATH: it is looked at before LD_LIBRARY_PATH, where the CUDA libraries' folder may have others.
for file in "$out"/bin/*; do patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$file"; done
for file in "$out"/lib/*; do patchelf --force-rpath --set-rpath '$ORIGIN' "$file"; done

glibc=2.0
for file in "$out"/bin/* "$out"/lib/*; do
  while read -r name path; do
    case "$(readlink -f "$path")" in
      "$(readlink -f "$out")"/lib/*) ;;
      *) fail "${file##*/} would take $name from $path" ;;
    esac
  done < <(needs "$file")
  needed=$(objdump -T "$file" | sed -n 's/.*GLIBC_\([0-9.]*\)).*/\1/p' | sort -uV | tail -1)
  glibc=$(printf '%s\n%s\n' "$glibc" "${needed:-2.0}" | sort -V | tail -1)
done

tar -C "$out" --sort=name --owner=0 --group=0 -cf - lib | gzip -6 > "$out/lib.tar.gz"
rm -r "$out/lib"
"$build/bin/write_tiny_pair" "$out/pair" 127.0.0.1:0
rm "$out"/pair/*.args
cp "$root/configs/producer.yaml" "$root/configs/consumer.yaml" "$out/configs/"
install -m 755 "$source_dir/device_check.sh" "$source_dir/end_to_end.sh" "$out/"

{
  echo "# made by tests/gpu/pack.sh of revision $(git -C "$root" describe --always --dirty 2> /dev/null || echo unknown)"
  echo "# needs glibc $glibc"
  echo "# sha256, bytes, file"
  cd "$out"
  find . -type f ! -name MANIFEST | LC_ALL=C sort | while read -r file; do
    echo "$(sha256sum < "$file" | cut -d' ' -f1) $(stat -c %s "$file") ${file#./}"
  done
} > "$out/MANIFEST"

bytes=$(du -sb "$out" | cut -f1)
echo "pack: $out has $((bytes / 1000)) kB and needs glibc $glibc"
[ "$bytes" -le $((limit_mb * 1000000)) ] || fail "$out has more than $limit_mb MB"
