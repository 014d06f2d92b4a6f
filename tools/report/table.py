"""A table as data: written to HTML by the page's template and to Markdown by markdown.py."""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Column:
    name: str
    unit: str = ""      # "" for words and plain counts that the name already says
    words: bool = False  # set left; numbers are set right


@dataclass
class Table:
    caption: str
    columns: list  # the first holds the row's name
    rows: list     # of lists of str
    spans: list = field(default_factory=list)  # (label, number of columns) over the header, for all columns; or empty
    folded: bool = False  # long: shown on demand

    def edges(self):
        """Indices of the columns where a new span begins, for a wider gap."""
        starts, at = [], 0
        for _, count in self.spans:
            starts.append(at)
            at += count
        return starts[1:]
