"""One table for each ablation."""
import figures
from table import Column, Table

_TITLES = {"ranks": "Ranks of K and V", "rank_h": "Rank of Patch codes", "patch_layers": "Patch budget",
           "distortion": "Distortion of the entropy codec", "calibration_prefixes": "Calibration size"}
_KEYS = [("rank_k", Column("r_K", "columns"), figures.whole), ("rank_v", Column("r_V", "columns"), figures.whole),
         ("rank_h", Column("r_H", "columns"), figures.whole), ("num_patch_layers", Column("Patch", "layers"), figures.whole),
         ("distortion", Column("Distortion"), figures.significant),
         ("calibration_prefixes", Column("Calibration", "prefixes"), figures.whole)]
_FIRST = {"ranks": "rank_k", "rank_h": "rank_h", "patch_layers": "num_patch_layers",
          "distortion": "distortion", "calibration_prefixes": "calibration_prefixes"}
_METRICS = [("bytes_per_token", Column("Bytes", "per token"), figures.whole), ("kl", Column("KL", "nats"), figures.significant),
            ("kl_answer", Column("KL answer", "nats"), figures.significant), ("ppl", Column("PPL"), figures.fixed(2)),
            ("tv", Column("TV", "0–1"), figures.significant),
            ("ttft_ms_codes_ready", Column("TTFT ready", "ms"), figures.milliseconds)]


def table(ablation):
    rows = ablation.get("rows") or []
    if not rows:
        return None
    first = _FIRST[ablation["name"]]
    keys = sorted(_KEYS, key=lambda k: k[0] != first)
    fields = [f for f in keys + _METRICS if f[0] == first or any(r.get(f[0]) is not None for r in rows)]
    columns = [column for _, column, _ in fields]
    lines = [[write(r.get(field)) for field, _, write in fields] for r in rows]
    if any(r.get("patch_layers") for r in rows):
        columns = columns + [Column("Patched", words=True)]
        lines = [line + [figures.layers(r.get("patch_layers"))] for line, r in zip(lines, rows)]
    return Table(f"{_TITLES[ablation['name']]}: every measurement", columns, lines, folded=True)
