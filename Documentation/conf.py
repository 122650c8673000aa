# SPDX-License-Identifier: GPL-2.0
#
# Configuration of Sphinx, for `make htmldocs`.

import pathlib
import re

from docutils.writers import manpage
from sphinx.writers.manpage import ManualPageTranslator

project = "user_events"
# The first entry of NEWS defines the version.
news = pathlib.Path(__file__).parent.parent / "NEWS"
version = release = re.search(r"^user_events (\d\S*) ", news.read_text(), re.MULTILINE)[1]
root_doc = "index"
exclude_patterns = ["examples"]

man_pages = [
    ("user_events", "user_events", "trace events that user programs make and write", [], 4),
    ("consumers", "user-events-consumers", "record user events with ftrace, perf and eBPF", [], 7),
    ("containers", "user-events-containers", "user events in containers and services", [], 7),
    ("command", "user-events", "find out about user events, and make groups of them", [], 8),
]

PAGES = {document: f"{page}({section})" for document, page, _, _, section in man_pages}
# The columns of a man page's line without its margin, and the gap between columns of a table.
TABLE_WIDTH, GAP = 71, 2


class Table(manpage.Table):
    """A table of a man page: columns as wide as in the source, a line below the head, and no box."""

    def __init__(self):
        super().__init__()
        self.widths = []
        self.head_rows = 0

    @staticmethod
    def longest_words(cells):
        """What the longest word in these takes, without what is for troff."""
        text = re.sub(r"\\(f.|%|&)", "", " ".join("".join(cell) for cell in cells)).replace("\\", "")
        return max(len(word) for word in text.split() or [""])

    def as_list(self):
        words = [self.longest_words(column) for column in zip(*self._rows)]
        widths = [max(sizes) for sizes in zip(self.widths, words)]
        while sum(widths) > TABLE_WIDTH - GAP * (len(widths) - 1):
            spare = [(width, n) for n, width in enumerate(widths) if width > words[n]]
            if not spare:
                break
            widths[max(spare)[1]] -= 1
        text = [".TS\n", f"{GAP} ".join(f"lw({width}n)" for width in widths) + ".\n"]
        for number, row in enumerate(self._rows):
            cells = []
            for cell in row:
                self._minimize_cell(cell)
                cells.append("T{\n.ad l\n.nh\n" + "".join(cell).rstrip("\n") + "\nT}")
            text.append("\t".join(cells) + "\n")
            if number + 1 == self.head_rows:
                text.append("_\n")
        return text + [".TE\n"]


class Translator(ManualPageTranslator):
    """Makes man pages with such tables."""

    def visit_table(self, node):
        super().visit_table(node)
        self._active_table = Table()

    def visit_colspec(self, node):
        self._active_table.widths.append(node["colwidth"])

    def depart_thead(self, node):
        self._active_table.head_rows = len(self._active_table._rows)


def refer_to_pages(app, document, source):
    """Has a man page name others, and the HTML of what is none."""
    if app.builder.name == "man":
        source[0] = re.sub(
            r":doc:`(\w+)`",
            lambda found: f":manpage:`{PAGES[found[1]]}`" if found[1] in PAGES else f"``{found[1]}.html``",
            source[0],
        )


def setup(app):
    app.set_translator("man", Translator, override=True)
    app.connect("source-read", refer_to_pages)


# As in the kernel's documentation: the domain is C, text without a language is not highlighted,
# quotes stay as typed.
primary_domain = "c"
highlight_language = "none"
smartquotes = False

html_theme = "alabaster"
html_theme_options = {
    "description": "user_events as a loadable module",
    "page_width": "min(75em, 100%)",
    "body_max_width": "none",
    # Small enough to show a line of 100 columns.
    "code_font_size": "0.8em",
    "sidebar_width": "16em",
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = False
html_show_copyright = False
