"""Where the figures come from: machine, models, bundle, data."""
import figures
from table import Column, Table


def table(document):
    machine, pair, data = (document.get(name) or {} for name in ("machine", "pair", "data"))
    lines = []

    def add(name, value):
        if value not in (None, ""):
            lines.append([name, str(value)])

    add("Date", document["created"])
    cpu = [figures.text(machine.get("cpu"))] if machine.get("cpu") else []
    if machine.get("cores") is not None:
        cpu.append(f"{machine['cores']:g} cores")
    if machine.get("memory_gib") is not None:
        cpu.append(f"{machine['memory_gib']:.1f} GiB of memory")
    add("Machine", ", ".join(cpu))
    add("System", machine.get("os"))
    add("Arithmetic", pair.get("backend"))
    for side in ("producer", "consumer"):
        add(side.capitalize(), (pair.get(side) or {}).get("description"))
        add(f"{side.capitalize()} digest", (pair.get(side) or {}).get("digest"))
    add("Bundle", (pair.get("bundle") or {}).get("path"))
    add("Bundle digest", (pair.get("bundle") or {}).get("digest"))
    add("Plan", pair.get("plan"))
    if pair.get("num_layers") is not None and pair.get("d_kv") is not None:
        add("Shape", f"{pair['num_layers']:g} layers, d_kv {pair['d_kv']:g}")
    if document.get("raw_bytes_per_token") is not None:
        add("Raw KV cache", f"{figures.whole(document['raw_bytes_per_token'])} bytes per token in bf16")
    add("Text windows", _data(data.get("windows"), "windows", "scored_tokens", "tokens scored in all"))
    add("Questions", _data(data.get("questions"), "questions", "max_tokens", "tokens an answer at most"))
    return Table("Machine, models and data", [Column("What", words=True), Column("Value", words=True)], lines)


def _data(part, unit, field, words):
    if not part:
        return None
    parts = [figures.text(part.get("source"))] if part.get("source") else []
    if part.get("count") is not None:
        parts.append(f"{part['count']:g} {unit}")
    if part.get(field) is not None:
        parts.append(f"{part[field]:,.0f} {words}")
    return ", ".join(parts)
