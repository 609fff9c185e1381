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
    "cards",
    "example_gallery",
    "notebooks",
    "reference_pages",
    "csv_markdown",
    "source_links",
]

exclude_patterns = ["_build", "examples", "tutorials", "estimators"]
root_doc = "index"

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = False

smartquotes = False  # "--ridge" and "..." stay what a reader has to type

html_theme = "furo"
html_title = f"polyceptron {release}"
html_static_path = ["_static"]
html_css_files = ["polyceptron.css"]
html_js_files = ["copy.js"]
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

python_maximum_signature_line_length = 80  # a longer signature has a line for each argument
autodoc_typehints = "none"  # the parameters below say them
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # there are none
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False  # every page would copy them for its menu
