"""Reads what ptxas -v and cuobjdump -sass write."""
import collections
import re
import subprocess

Resources = collections.namedtuple("Resources", "registers spilled shared")
Instruction = collections.namedtuple("Instruction", "address mnemonic text")

MATH = re.compile(r"(HMMA|HGMMA|UTCHMMA|FFMA2?|FMUL2?|FADD2?|IDP|IMAD\.WIDE)\b")


def read_log(text):
    """Mangled name -> Resources."""
    found, name, spilled = {}, None, 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name, spilled = match[1], 0
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(match[1]) + int(match[2])
        elif name and (match := re.search(r"Used (\d+) registers", line)):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name] = Resources(int(match[1]), spilled, int(shared[1]) if shared else 0)
            name = None
    return found


def read_sass(text):
    """Mangled name -> its Instructions in order."""
    found, code = {}, None
    for line in text.splitlines():
        if match := re.match(r"\s*Function : (\w+)", line):
            code = found.setdefault(match[1], [])
        elif code is not None and (match := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)):
            mnemonic = re.sub(r"^@!?U?P\w+\s+", "", match[2]).split()[0]
            code.append(Instruction(int(match[1], 16), mnemonic, re.sub(r"\s+", " ", match[2])))
    return found


def demangled(names):
    """Mangled name -> short name: "AttendTileKernel<1, 2>"."""
    names = sorted(names)
    lines = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    short = {}
    for name, line in zip(names, lines.splitlines()):
        line = re.sub(r"^void ", "", line).replace("scd::cuda::", "").replace("(anonymous namespace)::", "")
        short[name] = re.sub(r"\(.*", "", line)
    return short


def loops(code):
    """Bodies of all loops: what lies between the target of a branch backwards and the branch."""
    index = {i.address: n for n, i in enumerate(code)}
    for n, i in enumerate(code):
        if i.mnemonic.split(".")[0] == "BRA" and (match := re.search(r"0x([0-9a-f]+)", i.text)):
            target = int(match[1], 16)
            if target < i.address and target in index:
                yield code[index[target]:n + 1]


def hot_loop(code):
    """The smallest loop with at least half of the arithmetic; the whole code where there is none."""
    def arithmetic(part):
        return sum(bool(MATH.match(i.mnemonic)) for i in part)

    needed = arithmetic(code) / 2
    hot = [part for part in loops(code) if arithmetic(part) >= needed]
    return min(hot, key=len) if hot and needed else code
