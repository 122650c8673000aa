# SPDX-License-Identifier: GPL-2.0
#
# How Sphinx builds the documentation; run by `make htmldocs`.

import pathlib
import re

project = "user_events"
# As everywhere, that of the first entry of NEWS.
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

# As in the kernel's documentation: C is the domain, quotes stay as they are typed, and text without a language
# is not highlighted.
primary_domain = "c"
highlight_language = "none"
smartquotes = False

html_theme = "alabaster"
html_theme_options = {
    "description": "user_events as a loadable module",
    "page_width": "70em",
    "sidebar_width": "16em",
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = False
html_show_copyright = False
