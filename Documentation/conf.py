# SPDX-License-Identifier: GPL-2.0
#
# How Sphinx builds the documentation; run by `make htmldocs`.

project = "user_events"
root_doc = "index"
exclude_patterns = ["examples"]

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
