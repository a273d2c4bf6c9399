"""The documentation as pages (`make docs`): documents by MyST, headers by Doxygen and Breathe, Python by sphinx-autoapi."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

project = "accrue"
copyright = "the authors of accrue"
html_show_copyright = False
root_doc = "docs/README"
extensions = ["myst_parser", "breathe", "autoapi.extension", "sphinx.ext.napoleon"]

# Markdown as it is shown beside the sources: the same extensions, and the same anchors of headings.
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]

breathe_projects = {"accrue": str(ROOT / "build/docs/xml")}
breathe_default_project = "accrue"
breathe_default_members = ("members",)
breathe_show_include = False
breathe_domain_by_extension = {"h": "cpp"}
highlight_language = "none"

# Docstrings are read from the sources: neither torch nor the compiled module has to be there.
autoapi_dirs = [str(ROOT / "python" / "accrue")]
autoapi_root = "docs/python"
autoapi_file_patterns = ["*.pyi", "*.py"]
autoapi_options = ["members", "imported-members", "show-module-summary"]
autoapi_own_page_level = "function"
autoapi_python_class_content = "class"
autoapi_member_order = "groupwise"
autoapi_add_toctree_entry = False
autodoc_typehints = "signature"
default_role = "literal"
maximum_signature_line_length = 90
# Modules that users import by name. All other names are in the package itself.
PUBLIC_MODULES = {"accrue", "accrue.federated", "accrue.privacy", "accrue.privacy.clients", "accrue.testing", "accrue.transformers"}

html_theme = "furo"
html_title = "accrue"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": False}

suppress_warnings = [
    "duplicate_declaration.cpp",         # each header opens the same namespaces
    "autoapi.python_import_resolution",  # accrue._build is written by the build
]


def skip_private_modules(app, kind, name, obj, skip, options):
    return True if kind in ("module", "package") and name not in PUBLIC_MODULES else skip


def mark_examples(app, kind, name, obj, options, lines):
    """An indented block of a docstring is code."""
    text = "\n".join(lines)
    text = re.sub(r"(?m)(?<=\n)\n(?=    \S)(?<!::\n\n)", "\n.. code-block:: python\n\n", text)
    lines[:] = text.split("\n")


# For keyboards and screen readers, where the theme has nothing; and types by the names that users import.
MENDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Site">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="Page">',
    "accrue._native.": "accrue.",
    "collections.abc.": "",
}


def mend_pages(app, exception):
    if exception:
        return
    for page in pathlib.Path(app.outdir).rglob("*.html"):
        text = page.read_text()
        for old, new in MENDED.items():
            text = text.replace(old, new)
        page.write_text(text)


def setup(app):
    app.connect("autoapi-skip-member", skip_private_modules)
    app.connect("autodoc-process-docstring", mark_examples, priority=100)
    app.connect("build-finished", mend_pages)
