"""Sphinx settings. Everything is built from this folder, without the network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from polyceptron import __version__

project = "polyceptron"
author = "The polyceptron developers"
project_copyright = author
version = release = __version__
language = "en_GB"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # MathJax with its fonts, in the pages: no other host
    "plain_docstrings",
    "example_gallery",
    "notebooks",
    "csv_markdown",
    "source_links",
]

exclude_patterns = ["_build", "examples", "tutorials", "estimators"]
root_doc = "index"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = False

html_theme = "furo"
html_title = f"polyceptron {release}"
html_static_path = ["_static"]
html_css_files = ["polyceptron.css"]
mathjax3_config = {
    "tex": {
        "macros": {
            name: rf"\operatorname{{{name}}}"
            for name in ("argmax", "argmin", "prox", "tr", "softmax")
        }
    }
}
html_copy_source = False
html_show_sourcelink = False

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # there are none
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False  # every page would copy them for its menu
