"""The site builds without a warning, needs nothing from another host, and its pieces work."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from blocks import ROOT

import polyceptron

DOCS = ROOT / "docs"
NAVIGATION = ("canonical", "index", "search", "next", "prev")
sys.path.insert(0, str(DOCS / "_ext"))


class Resources(HTMLParser):
    """What a browser would fetch to show the page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.drawn = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") not in (
            "canonical",
            "index",
            "search",
            "next",
            "prev",
        ):
            self.addresses.append(given.get("href") or "")
        self.drawn += tag == "svg" and given.get("class") == "formula"


def from_elsewhere(addresses: list[str]) -> list[str]:
    return [address for address in addresses if re.match(r"(https?:)?//", address)]


@pytest.mark.slow
def test_site(tmp_path: Path) -> None:
    """One build for all checks: it is the expensive part, and workers share no fixtures."""
    site = build_site(tmp_path)
    check_nothing_is_fetched_from_other_hosts(site)
    check_formulas_are_drawn_and_all_names_are_described(site)
    check_gallery_shows_every_example(site)


def build_site(folder: Path) -> Path:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-d", str(folder / "doctrees"), str(DOCS), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def check_nothing_is_fetched_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        assert resources.addresses, page
        assert not from_elsewhere(resources.addresses), page
    for sheet in site.rglob("*.css"):
        style = sheet.read_text(encoding="utf-8")
        assert not re.search(r"""(url\(|@import)\s*['"]?(https?:)?//""", style), sheet


def check_formulas_are_drawn_and_all_names_are_described(site: Path) -> None:
    resources = Resources()
    resources.feed((site / "theory.html").read_text(encoding="utf-8"))
    assert resources.drawn > 50
    reference = (site / "api.html").read_text(encoding="utf-8")
    for name in set(polyceptron.__all__) - {"__version__"}:
        assert re.search(rf'id="polyceptron\.[\w.]*\b{name}"', reference), name


def check_gallery_shows_every_example(site: Path) -> None:
    gallery = (site / "gallery" / "index.html").read_text(encoding="utf-8")
    for script in (DOCS / "examples").glob("*.py"):
        assert f"{script.stem}.png" in gallery
        assert len(script.read_text(encoding="utf-8").splitlines()) < 25


def test_other_hosts_would_be_seen() -> None:
    """Negative control of the search for other hosts."""
    page = Resources()
    page.feed(
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="a.css">'
    )
    assert from_elsewhere(page.addresses) == ["https://cdn.example/x.js"]


def test_a_formula_that_cannot_be_drawn_is_an_error() -> None:
    from mathtext_formulas import CannotDraw, display_html, formula_svg

    assert "<path" in formula_svg(r"\hat q=\frac{1}{r}\,\mathbb{E}\,x^2")
    assert display_html(r"a &= b \\ c &= d").count("<svg") == 4
    with pytest.raises(CannotDraw, match="nonsense"):
        formula_svg(r"\nonsense{x}")


def test_docstrings_become_restructured_text() -> None:
    from plain_docstrings import convert

    lines = ["|m| of `x_` and W*.", "", "    q = m", "", ">>> a*b", "", "Heads", "-----", "n : |k|"]
    assert convert(lines) == [
        r"\|m\| of ``x_`` and W\*.", "", "::", "", "    q = m", "", ">>> a*b", "", "**Heads**", "",
        r"- ``n``: \|k\|",
    ]  # fmt: skip


def test_a_csv_file_becomes_a_table(tmp_path: Path) -> None:
    from csv_markdown import markdown_table

    file = tmp_path / "table.csv"
    file.write_text("what,ratio\na|b,2.0\nshort\n", encoding="utf-8")
    assert markdown_table(file) == [
        "| what | ratio |",
        "| --- | --- |",
        r"| a\|b | 2.0 |",
        "| short |  |",
    ]
