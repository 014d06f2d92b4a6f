"""Page on what the compiler made of the CUDA kernels, from the listings that cuda_kernels.sh makes.

Run: tools/report/cuda_kernels.py WORK_DIR CUDA_RELEASE > docs/measurements/cuda_kernels.md

Reads WORK_DIR/blocks.tsv (bench/gpu/cuda_blocks.cu) and of each source and architecture NAME.ARCHITECTURE.log (ptxas -v) and
.sass (cuobjdump -sass).
"""
import collections
import pathlib
import sys

from cuda_listing import demangled, hot_loop, read_log, read_sass

# Of each compute capability: threads, blocks and KiB of shared memory of one multiprocessor (CUDA C++ Programming Guide,
# "Technical Specifications per Compute Capability"); 65536 registers on all of them.
Multiprocessor = collections.namedtuple("Multiprocessor", "threads blocks shared_kib")
MULTIPROCESSORS = {
    80: Multiprocessor(2048, 32, 164),
    86: Multiprocessor(1536, 16, 100),
    89: Multiprocessor(1536, 24, 100),
    90: Multiprocessor(2048, 32, 228),
    100: Multiprocessor(2048, 32, 228),
    120: Multiprocessor(1536, 24, 100),
}
REGISTERS = 65536
REGISTER_UNIT = 256  # of a warp
SHARED_UNIT = 128
SHARED_OF_A_BLOCK = 1024  # that the system takes

# Kernels whose loops are looked at, and of which machine code is shown.
HOT = ["AttendMmaKernel<4>", "AttendMmaKernel<8>", "AttendTileKernel<4, 2>", "AttendTileKernel<1, 2>",
       "StoreVectorsKernel", "QuantizedProductKernel<4, 1>", "QuantizedProductKernel<8, 1>", "TopLogitsKernel"]
SHOWN = [("AttendMmaKernel<8>", 90, "HMMA"), ("AttendTileKernel<1, 2>", 90, "FFMA")]
KINDS = ["HMMA", "FFMA", "other f32", "MUFU", "LDG", "LDGSTS", "LD", "LDS", "STS", "SHFL", "BAR"]
LOOP_ARCHITECTURES = [80, 90, 120]

MEANINGS = [
    ("HMMA", "16 x 8 x 16 products of bf16 on a tensor core, sums in f32"),
    ("LDSM", "a matrix of bf16 from shared memory, spread over the warp"),
    ("LDGSTS", "device memory to shared memory, past the registers"),
    ("LDG.E.128", "16 bytes of each lane from device memory"),
    ("LDG", "from device memory"),
    ("LD.", "from memory of a kind that is only known when it runs"),
    ("STG", "to device memory"),
    ("LDS.128", "16 bytes of each lane from shared memory"),
    ("LDS", "from shared memory"),
    ("STS", "to shared memory"),
    ("FFMA", "multiply and add in f32"),
    ("FMNMX", "the larger of two"),
    ("FSEL", "one of two"),
    ("FMUL", "multiply in f32"),
    ("FADD", "add in f32"),
    ("MUFU.EX2", "power of two"),
    ("SHFL", "another lane's number"),
    ("BAR", "every thread of the block arrives"),
    ("WARPSYNC", "every lane arrives"),
    ("F2FP", "two f32 to a pair of bf16"),
    ("PRMT", "bytes of two registers"),
    ("IMAD.U32", "a bf16 moved up: it is the upper half of an f32"),
    ("BRA", "back, or out"),
    ("ISETP", "compare"),
]


def occupancy(architecture, threads, registers, shared_bytes):
    """Warps that fit onto a multiprocessor, of those that it can hold, and what stops more."""
    sm = MULTIPROCESSORS[architecture]
    warps = -(-threads // 32)
    of_a_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    shared = -(-(shared_bytes + SHARED_OF_A_BLOCK) // SHARED_UNIT) * SHARED_UNIT
    limits = {"threads": sm.threads // (32 * warps), "blocks": sm.blocks,
              "registers": REGISTERS // of_a_warp // warps, "shared": sm.shared_kib * 1024 // shared}
    blocks = min(limits.values())
    stops = next(name for name, limit in limits.items() if limit == blocks)
    return blocks * warps / (sm.threads // 32), stops


def read_blocks(path):
    """name -> (threads, dynamic shared bytes, what it is for)"""
    rows = (line.split("\t") for line in path.read_text().splitlines())
    return {name: (int(threads), int(shared), use) for name, threads, shared, use in rows}


def resources_table(blocks, logs, architectures):
    lines = ["| kernel | for | threads | shared KiB | " + " | ".join(map(str, architectures)) + " |",
             "|---|---|---|---|" + "---|" * len(architectures)]
    for name in sorted({name for log in logs.values() for name in log}, key=lambda n: (n not in blocks, n)):
        threads, dynamic, use = blocks.get(name, (0, 0, ""))
        shared = max((log[name].shared for log in logs.values() if name in log), default=0) + dynamic
        cells = []
        for architecture in architectures:
            found = logs[architecture].get(name)
            if found is None:
                cells.append("-")
                continue
            cell = str(found.registers) + (f" + {found.spilled} B" if found.spilled else "")
            if threads:
                share, stops = occupancy(architecture, threads, found.registers, found.shared + dynamic)
                cell += f", {share:.0%}" + {"registers": " r", "shared": " s"}.get(stops, "")
            cells.append(cell)
        lines.append(f"| `{name}` | {use} | {threads or '?'} | {shared / 1024:.1f} | " + " | ".join(cells) + " |")
    return lines


def kind_of(mnemonic):
    base = mnemonic.split(".")[0]
    if base in ("HMMA", "HGMMA", "UTCHMMA"):
        return "HMMA"
    if base in ("FADD", "FMUL", "FMNMX", "FSEL", "FSETP", "FADD2", "FMUL2"):
        return "other f32"
    if base in ("FFMA", "FFMA2"):
        return "FFMA"
    if base in ("LDS", "LDSM"):
        return "LDS"
    return base if base in KINDS else "rest"


def loops_table(listings, architectures):
    lines = ["| kernel | architecture | instructions | " + " | ".join(KINDS) + " | rest |",
             "|---|---|---|" + "---|" * (len(KINDS) + 1)]
    for name in HOT:
        for architecture in architectures:
            code = listings[architecture].get(name)
            if code is None:
                continue
            loop = hot_loop(code)
            counts = collections.Counter(kind_of(i.mnemonic) for i in loop)
            cells = [str(counts[kind] or "") for kind in KINDS + ["rest"]]
            lines.append(f"| `{name}` | {architecture} | {len(loop)} | " + " | ".join(cells) + " |")
    return lines


def meaning_of(mnemonic):
    return next((text for start, text in MEANINGS if mnemonic.startswith(start)), "")


def excerpt(code, kind, length=24):
    """The `length` neighbouring instructions of the hot loop with most of this kind and something that feeds them."""
    loop = hot_loop(code)
    best, best_score = 0, -1
    for begin in range(max(1, len(loop) - length + 1)):
        kinds = [kind_of(i.mnemonic) for i in loop[begin:begin + length]]
        feeds = min(6, sum(k in ("LD", "LDS", "LDG", "LDGSTS") for k in kinds))
        score = kinds.count(kind) + 2 * feeds if kinds.count(kind) >= 4 else 0
        if score > best_score:
            best, best_score = begin, score
    lines = []
    for i in loop[best:best + length]:
        meaning = meaning_of(i.mnemonic)
        text = f"{i.address:04x}  {i.text}"
        lines.append(f"{text:<58} // {meaning}" if meaning else text)
    return lines


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    work, release = pathlib.Path(arguments[0]), arguments[1]
    architectures = sorted({int(path.suffixes[-2][1:]) for path in work.glob("*.sass")})
    blocks = read_blocks(work / "blocks.tsv")
    logs = {a: {} for a in architectures}
    listings = {a: {} for a in architectures}
    for architecture in architectures:
        for path in sorted(work.glob(f"*.{architecture}.log")):
            logs[architecture].update(read_log(path.read_text()))
            listings[architecture].update(read_sass(path.with_suffix(".sass").read_text()))
    names = demangled({name for a in architectures for name in {*logs[a], *listings[a]}})
    logs = {a: {names[n]: found for n, found in log.items()} for a, log in logs.items()}
    listings = {a: {names[n]: code for n, code in found.items()} for a, found in listings.items()}

    print(f"""# CUDA kernels: what the compiler made of them

Made by `tools/report/cuda_kernels.sh` with CUDA {release}, without a GPU: `ptxas -v` for registers, spills and static shared
memory, `cuobjdump -sass` for instructions. What runs how fast is not said here (docs/cuda.md, "Checking on a GPU").

## Registers, shared memory, occupancy

Columns are compute capabilities without their point. A cell has the registers of a thread, after a plus the bytes of a
thread that are spilled (stores and loads), and the share of a multiprocessor's warps that fit onto it at most; *r* where
registers stop more, *s* where shared memory does, nothing where threads or blocks do. Shared memory is static and dynamic,
of a block.
""")
    print("\n".join(resources_table(blocks, logs, architectures)))
    print("""
## Instructions of the hot loops

Of each kernel the smallest loop with at least half of its arithmetic, as it was unrolled; without a loop, all of it. *LD* are
loads whose memory the compiler did not know (device or shared), *LDS* includes LDSM, *rest* is integers, addresses,
conversions, moves and branches.
""")
    print("\n".join(loops_table(listings, [a for a in LOOP_ARCHITECTURES if a in listings])))
    for name, architecture, kind in SHOWN:
        code = listings.get(architecture, {}).get(name)
        if code is None:
            continue
        print(f"\n## From the hot loop of `{name}` for {architecture}\n\n{blocks[name][2].capitalize()}.\n\n```")
        print("\n".join(excerpt(code, kind)))
        print("```")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
