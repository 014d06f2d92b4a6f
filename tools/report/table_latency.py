"""Times to first token: with codes ready by link and length, and every measurement with its stages."""
import figures
import names
from table import Column, Table

_STAGES = {"queue": "Queue", "producer_queue": "Producer queue", "producer_prefill": "Producer prefill",
           "producer_encode": "Encode", "first_frame": "First frame", "transfer": "Last frame", "rebuild": "Rebuild",
           "native": "Native positions"}


def ready(document):
    """Measured times with codes ready, the ways side by side."""
    rows = [r for r in (document.get("latency") or {}).get("rows") or []
            if r["measured"] and r.get("ttft_ms_codes_ready") is not None]
    if not rows:
        return None
    ways = dict.fromkeys(_way(r) for r in sorted(rows, key=_order(rows)))
    columns = [Column("Link", words=True), Column("Prefix", "tokens"), Column("native", "ms")] + [Column(way, "ms") for way in ways]
    lines = []
    for link, prefix in sorted({(r.get("link_mbit_s") or float("inf"), r["prefix_tokens"]) for r in rows}):
        mine = {_way(r): r for r in rows if (r.get("link_mbit_s") or float("inf"), r["prefix_tokens"]) == (link, prefix)}
        native = next((r["ttft_ms_native"] for r in mine.values() if r.get("ttft_ms_native") is not None), None)
        times = [mine[way]["ttft_ms_codes_ready"] if way in mine else None for way in ways]
        lines.append([figures.link(None if link == float("inf") else link), figures.whole(prefix), figures.milliseconds(native)] +
                     [figures.milliseconds(time) for time in times])
    return Table("Measured time to first token where the producer has the codes already.", columns, lines)


def table(document):
    rows = (document.get("latency") or {}).get("rows") or []
    if not rows:
        return None
    stages = [s for s in _STAGES if any((r.get("stages_ms") or {}).get(s) is not None for r in rows)]
    measured = {(_way(r), r["prefix_tokens"], r.get("link_mbit_s")) for r in rows if r["measured"]}
    rows = [r for r in rows if r["measured"] or (_way(r), r["prefix_tokens"], r.get("link_mbit_s")) not in measured]
    columns = [Column("Way", words=True), Column("Prefix", "tokens"), Column("Link", words=True), Column("Figures", words=True),
               Column("TTFT cold", "ms"), Column("TTFT ready", "ms"), Column("TTFT native", "ms"), Column("Moved", "bytes")] + \
              [Column(_STAGES[s], "ms") for s in stages]
    has_wire = any(r.get("wire_ms") is not None for r in rows)
    if has_wire:
        columns.append(Column("On the wire", "ms, computed"))
    lines = [[_way(r), figures.whole(r["prefix_tokens"]),
              figures.link(r.get("link_mbit_s")), "measured" if r["measured"] else "computed",
              figures.milliseconds(r.get("ttft_ms_cold")), figures.milliseconds(r.get("ttft_ms_codes_ready")),
              figures.milliseconds(r.get("ttft_ms_native")), figures.whole(r.get("bytes"))] +
             [figures.milliseconds((r.get("stages_ms") or {}).get(s)) for s in stages] +
             ([figures.milliseconds(r.get("wire_ms"))] if has_wire else []) for r in sorted(rows, key=_order(rows))]
    return Table("Every time to first token, with the stages of the cold transfer; computed ones where a link was not measured. Stages "
                 "overlap: they do not add up. First and last frame: since the request arrived.", columns, lines, folded=True)


def _way(row):
    return row.get("row") or names.mode(row["mode"]).label


def _order(rows):
    rank = {name: i for i, name in enumerate(names.in_order(r["mode"] for r in rows))}
    return lambda r: (r["prefix_tokens"], rank[r["mode"]], r.get("row") or "", r.get("link_mbit_s") or float("inf"))
