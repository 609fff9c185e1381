"""The site builds without a warning, needs nothing from another host, and its pieces work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from blocks import ROOT

import polyceptron
from polyceptron.problem import ESTIMATORS

pytestmark = [pytest.mark.process, pytest.mark.slow]

DOCS = ROOT / "docs"
CHROMIUM = Path(shutil.which("chromium") or "/usr/bin/chromium")
NAVIGATION = ("canonical", "index", "search", "next", "prev")
sys.path.insert(0, str(DOCS / "_ext"))


class Resources:
    """What a browser would fetch to show the page, and its links to pages of the site.

    By regular expressions, which find the same on these pages as html.parser, five times as fast.
    """

    TAG = re.compile(r"<(\w+)(\s[^<>]+)>")
    ATTRIBUTE = re.compile(
        r"""\s(id|name|href|src|rel)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))"""
    )

    def __init__(self, page: str) -> None:
        self.addresses: list[str] = []
        self.links: list[str] = []  # to pages of the site
        self.names: set[str] = set()  # anchors
        for tag, attributes in self.TAG.findall(page):
            given = {key: unescape("".join(v)) for key, *v in self.ATTRIBUTE.findall(attributes)}
            self.names |= {given[key] for key in ("id", "name") if given.get(key)}
            if tag == "a" and not re.match(r"\w+:|//", given.get("href") or "x:"):
                self.links.append(unquote(given["href"]))
            if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
                self.addresses.append(given.get("src") or "")
            if tag == "link" and given.get("rel") not in NAVIGATION:
                self.addresses.append(given.get("href") or "")


def from_elsewhere(addresses: list[str]) -> list[str]:
    return [address for address in addresses if re.match(r"(https?:)?//", address)]


@pytest.mark.browser
def test_site(tmp_path: Path) -> None:
    """One build for all checks: it is the expensive part, and workers share no fixtures."""
    site = build_site(tmp_path)
    pages = {
        path.resolve(): Resources(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    check_nothing_is_fetched_from_other_hosts(site, pages)
    check_links_lead_somewhere(site, pages)
    check_all_names_are_described_with_their_source(site)
    check_gallery_shows_every_example(site)
    check_tutorials_are_pages_and_notebooks(site)
    check_the_menu_is_short(site)
    check_formulas_are_set_by_the_pages_alone(site)
    check_options_keep_their_hyphens(site)


def check_options_keep_their_hyphens(site: Path) -> None:
    """A typographic dash in an option could not be pasted into a shell."""
    for path in site.rglob("*.html"):
        assert not re.search(r"[\s(]–[a-z]", path.read_text(encoding="utf-8")), path


def check_the_menu_is_short(site: Path) -> None:
    """At most eight entries at the top of the sidebar, and every page is reached from one."""
    front = (site / "index.html").read_text(encoding="utf-8")
    assert 4 < len(re.findall(r'<li class="toctree-l1', front)) <= 8


def build_site(folder: Path) -> Path:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-d", str(folder / "doctrees"), str(DOCS), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def check_nothing_is_fetched_from_other_hosts(site: Path, pages: dict[Path, Resources]) -> None:
    assert len(pages) > 10
    for path, page in pages.items():
        assert page.addresses, path
        assert not from_elsewhere(page.addresses), path
    for sheet in site.rglob("*.css"):
        style = sheet.read_text(encoding="utf-8")
        assert not re.search(r"""(url\(|@import)\s*['"]?(https?:)?//""", style), sheet


def check_links_lead_somewhere(site: Path, pages: dict[Path, Resources]) -> None:
    """Pages and anchors, also those of `[docs]` beside the source of a name."""
    lost = []
    for path, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            there = (path.parent / file).resolve() if file else path
            known = pages[there].names | {""} if there in pages else {""}
            if not there.exists() or anchor not in known:
                lost.append(f"{path.relative_to(site.resolve())}: {link}")
    assert not lost, lost


def check_all_names_are_described_with_their_source(site: Path) -> None:
    sources = 0
    for name in set(polyceptron.__all__) - {"__version__"}:
        page = (site / "api" / f"{name}.html").read_text(encoding="utf-8")
        assert re.search(rf'id="polyceptron\.{name}"', page), name
        assert len(page) < 150_000, f"{name}: {len(page)} characters"
        sources += page.count("viewcode-link")
    assert sources > 50
    paper_map = (site / "paper-map.html").read_text(encoding="utf-8")
    names = paper_map.count('<code class="xref py py-obj')
    assert (
        len(re.findall(r'href="[^"]+"[^>]*><code class="xref py py-obj', paper_map)) == names > 20
    )


def check_gallery_shows_every_example(site: Path) -> None:
    gallery = (site / "gallery" / "index.html").read_text(encoding="utf-8")
    for script in (DOCS / "examples").glob("*.py"):
        assert f"{script.stem}.svg" in gallery
        assert len(script.read_text(encoding="utf-8").splitlines()) < 30


def check_tutorials_are_pages_and_notebooks(site: Path) -> None:
    """They ran without an error, since the site is there; here what they leave behind."""
    scripts = list((DOCS / "tutorials").glob("*.py"))
    assert len(scripts) == 4
    pages = (DOCS / "estimators.md").read_text(encoding="utf-8")
    for name in ESTIMATORS.names:  # one page may be of several
        (page,) = re.findall(rf"\[(?:[^]]*[, ])?{name}\b(?!-)[^]]*\]\(([\w/-]+)\.md\)", pages)
        assert (site / f"{page}.html").exists(), f"no page of the estimator {name}"
    for script in scripts:
        page = (site / "gallery" / f"{script.stem}.html").read_text(encoding="utf-8")
        assert page.count("<img") >= 1, script
        (notebook,) = site.rglob(f"{script.stem}.ipynb")
        book = json.loads(notebook.read_text(encoding="utf-8"))
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
        kinds = {kind for cell in book["cells"] for out in cell.get("outputs", ()) for kind in out}
        assert {"data", "text"} <= kinds
        assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])


def check_formulas_are_set_by_the_pages_alone(site: Path) -> None:
    """In the browser, from the disk: every formula is typeset, and none has an unknown word."""
    if not CHROMIUM.exists():
        return
    with ThreadPoolExecutor(1) as thread:  # a browser of other tests may have this one's loop
        thread.submit(check_formulas_in_the_browser, site).result()


def check_formulas_in_the_browser(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    wrong = site / "wrong.html"
    theory = (site / "theory.html").read_text(encoding="utf-8")
    wrong.write_text(theory.replace(r"\sum_l", r"\nonsense_l"), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        elsewhere: list[str] = []
        page.on("request", lambda request: elsewhere.append(request.url))
        for name in ("theory", "paper-map", "optimal-cross-entropy"):
            written, drawn, faults = formulas(page, site / f"{name}.html")
            assert written == drawn > 2, name
            assert faults == 0, name
        assert formulas(page, wrong)[2] > 0, "an unknown word would not be seen"
        check_code_is_copied_and_fits(page, site / "start.html")
        browser.close()
    assert all(address.startswith("file:") for address in elsewhere)


def check_code_is_copied_and_fits(page: Any, path: Path) -> None:
    """A click copies a block as it stands, and at 1280 pixels no block is wider than the page."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(path.as_uri())
    block = page.locator("div.highlight").first
    block.hover()
    block.locator("button.copy").click()
    page.evaluate("document.body.append(document.createElement('textarea'))")
    page.locator("textarea").focus()
    page.keyboard.press("Control+V")
    assert (
        page.locator("textarea").input_value().strip() == block.locator("pre").inner_text().strip()
    )
    widths = "blocks => blocks.map(block => block.scrollWidth - block.clientWidth)"
    assert max(page.locator("article pre").evaluate_all(widths)) <= 0


def formulas(page: Any, path: Path) -> tuple[int, int, int]:
    """How many formulas a page has, how many were drawn, and how many faults are marked."""
    page.goto(path.as_uri())
    page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
    page.evaluate("MathJax.startup.promise")
    count = [
        page.locator(f".math{inside}").count()
        for inside in ("", ":has(mjx-container)", " :is(mjx-merror, [style*='red'])")
    ]
    return count[0], count[1], count[2]


def test_other_hosts_would_be_seen() -> None:
    """Negative control of the search for other hosts, and of that for links and anchors."""
    page = Resources(
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="a.css">'
        "<h1 id=top><a title=a\nhref='b%20c.html#d&amp;e'>b</a><a href='https://x.y'>x</a></h1>"
    )
    assert from_elsewhere(page.addresses) == ["https://cdn.example/x.js"]
    assert (page.links, page.names) == (["b c.html#d&e"], {"top"})


def test_cells_of_a_notebook_run_in_order_and_can_fail() -> None:
    from notebooks import notebook, outputs, read, run

    script = (
        "# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nx = 2\nprint(x)\nx + 1\n\n# %%\nx * 10\n"
    )
    cells = read(script)
    run(cells, "test")
    assert [cell.kind for cell in cells] == ["markdown", "code", "code"]
    assert cells[0].source == "# Title\n\ntext"
    assert (cells[1].text, cells[2].text) == ("2\n3", "20")
    assert outputs(cells[2]) == [{"output_type": "stream", "name": "stdout", "text": "20"}]
    assert len(json.loads(notebook(cells))["cells"]) == 3
    with pytest.raises(ZeroDivisionError):
        run(read("# %%\n1 / 0\n"), "wrong")


def test_docstrings_become_restructured_text() -> None:
    from plain_docstrings import convert

    lines = ["|m| of `x_` and W*.", "", "    q = m", "", ">>> a*b", "", "Heads", "-----", "n : |k|"]
    assert convert([*lines, "X, y", "    Those."]) == [
        r"\|m\| of ``x_`` and W\*.",
        "",
        "::",
        "",
        "    q = m",
        "",
        ">>> a*b",
        "",
        ".. rubric:: Heads",
        "",
        r"``n`` : *\|k\|*",
        "    \\",
        "X, y",
        "    Those.",
    ]


def test_benchmarks_become_tables_of_ratios() -> None:
    from csv_markdown import ratio_tables

    names = ("bench", "name", "rival/ours", "exponent", "note")
    rows = [
        ("start", "import: against numpy", "3.51", "", ""),
        ("bayes", "growth: a curve, in k", "", "0.28", "limit: 1"),
        ("start", "one point", "2", "", "rival: the aim; ok"),
        ("start", "without numbers", "", "", ""),
    ]
    lines = ratio_tables([dict(zip(names, row, strict=True)) for row in rows])
    assert [line for line in lines if line.startswith("##")] == [
        "## Bayes-optimal theory",
        "## Starting up",
    ]
    assert lines[5] == "| a curve, in k | – | cost grows as the power 0.28 |"
    assert lines[-2:] == ["| import | numpy | **3.5** |", "| one point | the aim | **2** |"]


def test_a_csv_file_becomes_a_table(tmp_path: Path) -> None:
    from csv_markdown import markdown_table

    file = tmp_path / "table.csv"
    file.write_text("what,ratio\na|b,2.0\nshort\n", encoding="utf-8")
    assert markdown_table(file, "ratio")[2] == "| 2.0 |"
    assert markdown_table(file) == [
        "| what | ratio |",
        "| --- | --- |",
        r"| a\|b | 2.0 |",
        "| short |  |",
    ]
