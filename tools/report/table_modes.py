"""The main table, both groups side by side, and the table of every figure."""
import figures
import names
from table import Column, Table

GROUPS = {"published": "As each is published", "equal": "At equal native positions"}

# field, column, how its numbers are written
_MAIN = [
    ("bytes_per_token", Column("Bytes", "per token"), figures.whole),
    ("percent_of_raw", Column("Of raw", "%"), figures.fixed(1)),
    ("f1", Column("F1", "0–1"), figures.fixed(3)),
    ("ppl", Column("PPL"), figures.fixed(2)),
    ("kl", Column("KL", "nats"), figures.significant),
    ("kl_answer", Column("KL answer", "nats"), figures.significant),
    ("ttft_ms_cold", Column("TTFT cold", "ms"), figures.milliseconds),
    ("ttft_ms_codes_ready", Column("TTFT ready", "ms"), figures.milliseconds),
]
_FULL = [
    ("native_head", Column("Head", "tokens"), figures.whole),
    ("native_tail", Column("Tail", "tokens"), figures.whole),
    ("bytes_per_token", Column("Bytes", "per token"), figures.whole),
    ("code_bytes_per_transferred_token", Column("Code bytes", "per transferred token"), figures.whole),
    ("percent_of_raw", Column("Of raw", "%"), figures.fixed(1)),
    ("f1", Column("F1", "0–1"), figures.fixed(3)),
    ("exact", Column("Exact", "0–1"), figures.fixed(3)),
    ("ppl", Column("PPL"), figures.fixed(2)),
    ("kl", Column("KL", "nats"), figures.significant),
    ("tv", Column("TV", "0–1"), figures.significant),
    ("kl_answer", Column("KL answer", "nats"), figures.significant),
    ("first_difference", Column("First difference", "token, median"), figures.significant),
    ("ttft_ms_cold", Column("TTFT cold", "ms, median"), figures.milliseconds),
    ("ttft_ms_codes_ready", Column("TTFT ready", "ms, median"), figures.milliseconds),
    ("ttft_ms_native", Column("TTFT native", "ms, median"), figures.milliseconds),
]


def _measured(fields, rows):
    """Those that some row has."""
    return [field for field in fields if any(row.get(field[0]) is not None for row in rows)]


def _cells(row, fields):
    return [write(row.get(field)) if row else figures.MISSING for field, _, write in fields]


def main(document):
    rows = document.get("modes") or []
    groups = [g for g in GROUPS if any(r["group"] == g for r in rows)]
    if not groups:
        return None
    # The oracle has no native positions of its own: it is the same in every group.
    oracles = [dict(r, group=g) for r in rows if r["mode"] == "local" for g in groups
               if not any(o["mode"] == "local" and o["group"] == g for o in rows)]
    lines = _side_by_side(rows + oracles, groups)
    fields = _measured(_MAIN, rows)
    columns = [Column("Way", words=True)] + [column for _ in groups for _, column, _ in fields]
    spans = [("", 1)] + [(GROUPS[g], len(fields)) for g in groups]
    caption = "Every way of handing over the prefix, against the consumer's own native prefill (the oracle)."
    return Table(caption, columns, [[label] + [cell for g in groups for cell in _cells(line.get(g), fields)]
                                    for label, line in lines], spans)


def _side_by_side(rows, groups):
    """[(label, {group: row})]: rows of the groups that show the same way stand in one line."""
    lines = []
    for row in rows:
        free = [line for line in lines if row["group"] not in line[1]]
        same_name = [line for line in free if any(other["row"] == row["row"] for other in line[1].values())]
        same_way = [line for line in free if any(_way(other) == _way(row) for other in line[1].values())]
        match = (same_name or same_way or [None])[0]
        if match is None:
            lines.append((row["row"], {row["group"]: row}))
        else:
            match[1][row["group"]] = row
    return lines


def _way(row):
    return row["mode"], row.get("codec") or ""


def full(document):
    rows = document.get("modes") or []
    if not rows:
        return None
    fields = _measured(_FULL, rows)
    ratios = [(name, field) for name, field in (("Native / cold", "ttft_ms_cold"), ("Native / ready", "ttft_ms_codes_ready"))
              if any(row.get("ttft_ms_native") and row.get(field) for row in rows)]
    columns = [Column("Way", words=True), Column("Group", words=True), Column("Mode", words=True),
               Column("Codec", words=True)] + [c for _, c, _ in fields] + \
              [Column(name, "×") for name, _ in ratios] + [Column("Plan", words=True)]
    lines = []
    for row in rows:
        native = row.get("ttft_ms_native")
        ratio = [figures.fixed(2)(native / row[f] if native and row.get(f) else None) for _, f in ratios]
        lines.append([row["row"], row["group"], names.mode(row["mode"]).label, figures.text(row.get("codec"))] +
                     _cells(row, fields) + ratio + [figures.text(row.get("plan"))])
    return Table("Every figure of every way. First difference: the first greedy token that differs from the oracle's "
                 "(a dash: never). Native / cold and native / ready: how many times sooner the first token comes.",
                 columns, lines, folded=True)
