"""The figures of the method's own paper (arXiv 2606.07684), for comparison."""
from table import Column, Table

MAIN = Table(
    "The paper's own figures (arXiv 2606.07684): MistralLite to Mistral-7B over 200 Gbit/s, F1 on CMRC2018. Another pair, "
    "other data, other hardware: compare the order of the ways, not the values.",
    [Column("Way", words=True), Column("Payload", "MB"), Column("TTFT", "ms"), Column("vs oracle", "×"), Column("F1", "0–1"),
     Column("KL", "nats"), Column("PPL")],
    [["Oracle", "0", "331.9", "1.00", "0.8105", "0", "4.15"],
     ["Raw KV, bf16", "115.02", "145.5", "2.28", "0.2725", "3.1209", "> 100"],
     ["4-bit", "28.76", "59.2", "5.60", "0.1289", "6.1887", "> 100"],
     ["DroidSpeak-style selective", "127.34", "198.7", "1.67", "0.7052", "0.1459", "5.33"],
     ["SCD, Reuse only", "69.02", "118.2", "2.81", "0.6421", "0.1661", "6.11"],
     ["SCD", "87.31", "125.2", "2.65", "0.7850", "0.1105", "4.65"]])

PATCH_BUDGET = Table(
    "The paper's Patch budget on WikiText-2 (same pair)",
    [Column("Patch layers", words=True), Column("PPL"), Column("TTFT", "ms")],
    [["0", "6.788", "112.3"], ["1", "5.971", "115.9"], ["3", "5.326", "125.7"], ["5", "5.017", "136.4"],
     ["8", "4.816", "145.9"]])
