"""What a measurement was made on."""
import os
import platform


def describe():
    model, flags = platform.machine(), set()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                model = value.strip()
            elif name.strip() in ("flags", "Features"):
                flags = set(value.split())
    known = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "sve")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "instruction_sets": [name for name in known if name in flags],
        "system": platform.platform(),
        "load_before": os.getloadavg()[0],
    }
