#!/usr/bin/env python3
"""What `make docs` made, looked at as a reader would:   docs_pages.py build/docs/html

Each public header and each public Python name has a page with its text, nothing is loaded from elsewhere, the search finds, and in
headless Chromium at 390 and 1,200 pixels nothing is wider than the page and axe-core finds nothing serious.
"""
import ast
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import skips  # noqa: E402
from browser import chromium  # noqa: E402

try:
    from axe_playwright_python.sync_playwright import Axe
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ROOT = HERE.parents[1]
PAGES = pathlib.Path()
WIDTHS = (390, 1200)
LOOKED_AT = ("README.html", "docs/README.html", "docs/guide/config.html", "docs/guide/library.html", "docs/notes/index.html", "docs/cpp/index.html",
             "docs/cpp/accrue/accum/accumulator.html", "docs/python/accrue/index.html", "docs/python/accrue/Accumulator.html",
             "examples/by_feature/forms.cpp.page.html")
LOADED = re.compile(r'<(?:script|img|iframe)\b[^>]*\bsrc="(https?:)?//|<link\b[^>]*rel="(?:stylesheet|preload)"[^>]*href="(https?:)?//')
DETAIL = re.compile(r"^namespace detail \{.*?^\}  // namespace detail", re.MULTILINE | re.DOTALL)
SEARCH = 'input[name="q"]'


def public_names() -> list[str]:
    for node in ast.parse((ROOT / "python/accrue/__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("__")]
    raise AssertionError("python/accrue/__init__.py has no __all__")


def text_of(page: pathlib.Path) -> str:
    """Without tags."""
    return re.sub(r"<[^>]*>", "", page.read_text())


class Pages(unittest.TestCase):
    def test_each_public_header_has_one_with_its_declarations(self):
        headers = sorted((ROOT / "include").rglob("*.h"))
        self.assertGreater(len(headers), 50)
        for header in headers:
            page = PAGES / "docs/cpp" / header.relative_to(ROOT / "include").with_suffix(".html")
            with self.subTest(header=header.name):
                self.assertTrue(page.is_file(), page)
                public = DETAIL.sub("", header.read_text())
                for declared in re.findall(r"^(?:class|struct) (\w+)(?: :[^;]*)? \{", public, re.MULTILINE):
                    self.assertIn(declared, text_of(page))

    def test_each_public_python_name_has_one_with_its_docstring(self):
        names = public_names()
        self.assertGreater(len(names), 30)
        for name in names:
            page = PAGES / f"docs/python/accrue/{name}.html"
            with self.subTest(name=name):
                self.assertTrue(page.is_file(), page)
                self.assertRegex(page.read_text(), rf'id="accrue\.{name}"')
                self.assertRegex(page.read_text(), r"<dd>\s*<p>")

    def test_documents_are_pages(self):
        for document in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
            if document.name != "benchmarks.in.md":
                self.assertTrue((PAGES / document.relative_to(ROOT).with_suffix(".html")).is_file(), document)

    def test_nothing_is_loaded_from_elsewhere(self):
        for page in PAGES.rglob("*.html"):
            self.assertIsNone(LOADED.search(page.read_text()), page)


class InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(chromium())

    def test_pages_fit_and_are_accessible(self):
        for name in LOOKED_AT:
            for width in WIDTHS:
                with self.subTest(page=name, width=width):
                    page = self.browser.new_page(viewport={"width": width, "height": 1000})
                    page.goto((PAGES / name).as_uri())
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                    found = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in Axe().run(page).response["violations"]
                             if one["impact"] in ("serious", "critical")]
                    self.assertEqual(found, [])
                    page.close()

    def test_the_first_page_leads_to_the_documents_and_the_search_finds(self):
        page = self.browser.new_page()
        page.goto((PAGES / "index.html").as_uri())
        page.wait_for_url("**/docs/README.html")
        page.locator(SEARCH).first.fill("quarantined")
        page.locator(SEARCH).first.press("Enter")
        page.wait_for_selector("ul.search li a", timeout=30_000)
        self.assertGreater(page.locator("ul.search li").count(), 1)
        page.close()


if __name__ == "__main__":
    PAGES = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
