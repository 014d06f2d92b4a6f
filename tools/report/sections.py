"""A document as the sections of its report: what the page and the Markdown both show, in order. A section whose part of
the document is absent is not there."""
from dataclasses import dataclass, field

import figures
import paper
import plot_ablation
import plot_drift
import plot_latency
import plot_rate
import table_ablations
import table_drift
import table_latency
import table_modes
import table_origin


@dataclass
class Section:
    name: str   # in links
    title: str
    text: list = field(default_factory=list)   # paragraphs
    parts: list = field(default_factory=list)  # Plot and Table, in order
    notes: list = field(default_factory=list)  # paragraphs after the parts, in small type
    code: list = field(default_factory=list)   # lines


def build(document):
    made = [_modes(document), _rate(document), _latency(document), _ablations(document), _drift(document),
            _origin(document)]
    return [section for section in made if section.text or section.parts or section.code]


def title(document):
    return "SCD: what each way of handing over the prefix costs, and what it does to the answers"


def summary(document):
    """What the main table says, in sentences made from its figures; empty without one."""
    rows = document.get("modes") or []
    oracle = next((r for r in rows if r["mode"] == "local"), None)
    group = "equal" if any(r["group"] == "equal" and r["mode"] == "scd" for r in rows) else "published"
    said = []
    for mode, words in (("fused", "Fused"), ("scd", "SCD"), ("reuse", "Reuse alone"), ("raw_rerope", "The raw cache, re-roped")):
        row = next((r for r in rows if r["mode"] == mode and r["group"] == group), None)
        if row is None or row.get("kl") is None or row.get("bytes_per_token") is None:
            continue
        f1 = f", F1 {row['f1']:.3f}" if row.get("f1") is not None else ""
        said.append(f"{words} moves {figures.whole(row['bytes_per_token'])} bytes a token at KL {figures.significant(row['kl'])} nats"
                    f"{f1}.")
    if said and oracle and oracle.get("f1") is not None:
        said.append(f"The oracle's F1 is {oracle['f1']:.3f}.")
    if said:
        said[0] = ("At equal native positions, " if group == "equal" else "Each way as it is published: ") + said[0]
    return said


def warning(document):
    """What is to be known before any figure is read; empty where the run was whole."""
    if document.get("error"):
        return "The run ended early, not everything is here: " + document["error"]
    return "The run was interrupted, not everything is here." if document.get("interrupted") else ""


def _modes(document):
    section = Section("table", "Main table")
    table = table_modes.main(document)
    if table is None:
        return section
    section.text = [
        "KL is KL(oracle || way), in nats, over the scored positions of the text windows; KL answer is the same at the answer's "
        "first token. F1 and PPL (perplexity) are of the consumer's greedy answers and of the given continuation. TTFT is time to "
        "first token, a median over the questions: cold, the producer prefills from nothing; ready, it has the codes."]
    natives = {g: _natives(document["modes"], g) for g in table_modes.GROUPS}
    if natives["equal"]:
        section.text.append("Equal native positions: " + natives["equal"] + " that the consumer computes itself.")
    section.parts = [table, table_modes.full(document), paper.MAIN]
    return section


def _natives(rows, group):
    pairs = {(r.get("native_head"), r.get("native_tail")) for r in rows if r["group"] == group and r["mode"] != "local"}
    if len(pairs) != 1 or None in next(iter(pairs)):
        return ""
    head, tail = next(iter(pairs))
    return f"the first {head:g} and, before the last token, {tail:g}"


def _rate(document):
    plot = plot_rate.plot(document)
    return Section("rate", "Rate against distortion", parts=[plot] if plot else [])


def _latency(document):
    section = Section("latency", "Time to first token against bandwidth", parts=plot_latency.plot_all(document))
    section.parts += [table for table in (table_latency.ready(document), table_latency.table(document)) if table is not None]
    return section


def _ablations(document):
    section = Section("ablations", "Ablations")
    plotted = dict(plot_ablation.plot_all(document))
    for index, ablation in enumerate(document.get("ablations") or []):
        table = table_ablations.table(ablation)
        section.parts += [part for part in (plotted.get(index), table) if part is not None]
        if table is not None and ablation["name"] == "patch_layers":
            section.parts.append(paper.PATCH_BUDGET)
    return section


def _drift(document):
    section = Section("drift", "Drift by layer")
    drift = document.get("drift") or {}
    plot = plot_drift.plot(document)
    tables = table_drift.tables(document)
    if plot is None and not tables:
        return section
    section.parts = [p for p in [plot] if p] + tables
    counts = [f"{drift[f]:g} {w}" for f, w in (("prefixes", "prefixes"), ("decode_positions", "decoded positions"))
              if drift.get(f) is not None]
    if counts:
        section.text.append("Measured over " + " and ".join(counts) + ".")
    if drift.get("note"):
        section.notes.append(drift["note"])
    section.text += table_drift.violations(document)
    return section


def _origin(document):
    return Section("origin", "Machine, digests and commands", parts=[table_origin.table(document)],
                   code=document.get("commands") or [])
