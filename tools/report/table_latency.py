"""Every latency measurement with its stages."""
import figures
import names
from table import Column, Table

_STAGES = {"queue": "Queue", "producer_queue": "Producer queue", "producer_prefill": "Producer prefill",
           "producer_encode": "Encode", "first_frame": "First frame", "transfer": "Last frame", "rebuild": "Rebuild",
           "native": "Native positions"}


def table(document):
    rows = (document.get("latency") or {}).get("rows") or []
    if not rows:
        return None
    stages = [s for s in _STAGES if any((r.get("stages_ms") or {}).get(s) is not None for r in rows)]
    columns = [Column("Way", words=True), Column("Prefix", "tokens"), Column("Link", words=True), Column("Figures", words=True),
               Column("TTFT cold", "ms"), Column("TTFT ready", "ms"), Column("TTFT native", "ms"), Column("Moved", "bytes")] + \
              [Column(_STAGES[s], "ms") for s in stages]
    has_wire = any(r.get("wire_ms") is not None for r in rows)
    if has_wire:
        columns.append(Column("On the wire", "ms, computed"))
    rank = {name: i for i, name in enumerate(names.in_order(r["mode"] for r in rows))}
    ordered = sorted(rows, key=lambda r: (r["prefix_tokens"], rank[r["mode"]], r.get("row") or "",
                                          r.get("link_mbit_s") or float("inf")))
    lines = [[r.get("row") or names.mode(r["mode"]).label, figures.whole(r["prefix_tokens"]),
              figures.link(r.get("link_mbit_s")), "measured" if r["measured"] else "computed",
              figures.milliseconds(r.get("ttft_ms_cold")), figures.milliseconds(r.get("ttft_ms_codes_ready")),
              figures.milliseconds(r.get("ttft_ms_native")), figures.whole(r.get("bytes"))] +
             [figures.milliseconds((r.get("stages_ms") or {}).get(s)) for s in stages] +
             ([figures.milliseconds(r.get("wire_ms"))] if has_wire else []) for r in ordered]
    return Table("Every time to first token, with the stages of the cold transfer. Stages overlap: they do not add up. First and "
                 "last frame: since the request arrived.", columns, lines, folded=True)
