"""The documentation site: sphinx-build -W --keep-going -b html docs docs/_build/html."""

import inspect
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer

import nearworth

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "nearworth"
author = "The nearworth developers"
project_copyright = f"2026, {author}"
release = nearworth.__version__

extensions = [
    "mathml",
    "notebooks",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_fence_as_directive = ["math"]  # the fence that GitHub draws formulas from
myst_heading_anchors = 3
highlight_language = "text"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings name the types; signatures stay readable
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes that are properties have an entry of their own too
default_role = "code"  # `names` in docstrings
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "nearworth"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "tutorial": []}
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

copybutton_prompt_text = ">>> |\\.\\.\\. "
copybutton_prompt_is_regexp = True


def restore_sentences(_app, what, _name, obj, _options, lines):
    """A property's docstring as written: napoleon takes what precedes a colon in it for a type."""
    if what == "property":
        lines[:] = [*inspect.cleandoc(obj.__doc__ or "").splitlines(), ""]


def setup(app):
    """Fences of these names are plain text; docstrings of properties are sentences."""
    for name in ("csv", "output"):
        app.add_lexer(name, TextLexer)
    app.connect("autodoc-process-docstring", restore_sentences, priority=600)  # after napoleon
