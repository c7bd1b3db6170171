"""How the documentation is built: Markdown, no network, warnings are errors (see `make docs`)."""

from importlib.metadata import version as installed_version

project = "Headgate"
author = "The Headgate authors"
copyright = author
version = release = installed_version("headgate")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist", "html_image"]
# GitHub's rule for anchors, so that a link works in both places.
myst_heading_anchors = 3

html_theme = "furo"
html_title = "Headgate"
html_show_sourcelink = False
html_copy_source = False

autodoc_typehints = "description"
autodoc_member_order = "bysource"
nitpick_ignore_regex = [("py:.*", r"(collections|typing|pathlib|msgspec)\..*")]
