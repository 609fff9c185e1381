"""The explorer in a real browser: Debian's Chromium, driven by Playwright.

Nothing here measures time: each step waits for what it wants to see. At the end of each test no
page has complained in its console, and none has asked any other machine for anything. Tests of
pages elsewhere are in other_origin.py and run here: one browser serves all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.browser.conftest import PATIENCE, until
from tests.browser.other_origin import (  # noqa: F401
    elsewhere,
    explorer,
    test_nothing_starts_for_another_page_but_by_a_press_and_the_visitor_keeps_everything,
    test_the_attack_is_real_without_the_guard_it_gets_through,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SMALL = "&places=3&runs=1&dimension=60"
LIGHT = "?k=2&estimators=bayes,square&points=12&high=2.0"


def test_the_page_opens_with_curves_and_controls_of_each_kind_move_them(visit: Any) -> None:
    """Check box, slider, number, radio button; what every one of them does has tests of its own."""
    page = visit.page
    visit.open("?k=2&points=5&estimators=bayes,cross-entropy,square")
    for name in ("Bayes-optimal", "AMP", "cross-entropy", "square loss"):
        visit.wait_for_curve(name)
    tools = page.locator("#learning .modebar-btn")
    labels = tools.evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert "Download plot as a PNG" in labels
    assert not any("Share" in label or "cloud" in label.lower() for label in labels)
    assert page.locator("#landscape .scatterlayer .trace").count() >= 3
    assert "α" in page.locator("#learning .annotation").first.text_content()

    page.get_by_role("checkbox", name="cross-entropy").click()
    visit.wait_for_setting("estimators", "bayes,square")
    visit.wait_until_gone("cross-entropy")
    before = visit.wait_for_curve("square loss")["y"][-1]
    slider = page.get_by_label("Ridge λ (logarithmic)")
    slider.focus()
    slider.press("Home")  # by keyboard, to the smallest
    visit.wait_for_setting("ridge", "1e-06")
    assert visit.wait_for_curve("square loss", "t.y.at(-1) !== arg", before)["y"][-1] > before
    page.get_by_label("as set here").check()
    page.get_by_label("α to", exact=True).fill("2.9")
    visit.wait_for_setting("high", "2.9")
    visit.wait_for_curve("square loss", "t.x.at(-1) === 2.9")
    chosen = page.get_by_label("Chosen α")
    chosen.focus()
    chosen.press("End")
    visit.wait_for_setting("alpha", "2.9")
    until(page, "document.querySelector('#status')?.innerText.includes('easy phase')")

    strength = page.get_by_label("Of the noise")
    assert strength.is_hidden()
    page.get_by_label("flipped labels").check()
    visit.wait_for_curve("floor: the teacher itself", "Math.abs(t.y[0] - 0.1) < 1e-9")
    strength.focus()
    strength.press("ArrowRight")
    visit.wait_for_setting("strength", "0.102329")  # 10^-0.99: one step of the slider
    visit.wait_for_curve("floor: the teacher itself", "Math.abs(t.y[0] - 0.102329) < 1e-9")

    # Classes that differ have recalls and a confusion matrix.
    page.get_by_label("Gaussian clusters").check()
    visit.wait_for_setting("model", "mixture")
    page.get_by_text("Shares of the classes").click()
    share = page.get_by_label("Class 2", exact=True)
    share.focus()
    share.press("Home")
    visit.wait_for_setting("share2", "0.01")
    assert page.locator("#share2-value").inner_text() == "0.99 %"
    cells = "document.querySelector('#landscape .js-plotly-plot').data[0]?.z"
    until(page, f"{cells}?.length >= 8 && {cells}[0] > 0.9")
    until(page, "document.querySelector('#order .js-plotly-plot').data.length === 4")
    lines = page.evaluate("document.querySelector('#order .js-plotly-plot').data.map(t => t.name)")
    assert lines[0] == "Bayes-optimal, class 1"
    assert page.locator("#landscape-title").inner_text() == "Confusion matrix"


def _downloads(page: Any, folder: Path) -> None:
    files = {}
    for kind in ("CSV", "PNG", "Python", "page (HTML)"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"Download {kind}").click()
        files[kind] = folder / waiting.value.suggested_filename
        waiting.value.save_as(files[kind])
    table = files["CSV"].read_text().splitlines()
    assert table[0].startswith("source,model,n_classes,prior,noise,estimator")
    assert len([line for line in table if ",square," in line]) >= 12
    assert files["PNG"].suffix == ".png"
    assert files["PNG"].read_bytes().startswith(b"\x89PNG")
    assert "pc.learning_curve" in files["Python"].read_text()
    lecture = page.context.new_page()  # without a server
    lecture.goto(files["page (HTML)"].as_uri())
    until(lecture, "document.querySelectorAll('.js-plotly-plot .main-svg').length >= 3")
    lecture.close()
    page.get_by_text("Python lines for these curves").click()
    assert page.locator("#python").inner_text().strip() == files["Python"].read_text().strip()


def test_curves_are_downloaded_and_a_simulation_is_cancelled(
    server: Any, visit: Any, tmp_path: Path
) -> None:
    """No press on cancel is lost: it comes at some moment among hundreds of changes of the list.

    The first fifty runs, with few samples, are quick; the others would last for minutes.
    """
    page = visit.page
    visit.open(LIGHT)
    _downloads(page, tmp_path)
    for label, value in (("Dimension d", "700"), ("Values of α", "4"), ("Runs at each", "50")):
        page.get_by_label(label, exact=True).fill(value)
    visit.wait_for_setting("runs", "50")
    visit.wait_for_setting("dimension", "700")
    page.evaluate("window.late = true")
    known = {child.pid for child in server.process.children(recursive=True)}
    page.get_by_role("button", name="Add simulation").click()
    running = page.locator("#slot-0")
    running.get_by_role("progressbar").wait_for()
    until(page, "document.querySelector('#progress-0').value > 5")
    # Its process is there while it runs and gone when it is cancelled.
    started = [c for c in server.process.children(recursive=True) if c.pid not in known]
    assert started
    running.get_by_role("button", name="Cancel").click()
    running.get_by_text("cancelled").wait_for()
    psutil.wait_procs(started, timeout=PATIENCE / 1000)
    assert not any(process.is_running() for process in started)
    page.evaluate("window.late = false")
    running.get_by_role("button", name="Remove").click()
    until(page, "document.querySelector('#slot-0').hidden")

    # Too large a simulation is an error message, not a process.
    page.get_by_label("Dimension d", exact=True).fill("5000")
    visit.wait_for_setting("dimension", "5000")
    page.get_by_role("button", name="Add simulation").click()
    page.locator("#simulation-message").get_by_text("choose a dimension of at most").wait_for()


def test_a_shared_link_shows_the_same_visitors_do_not_mix_and_a_wild_link_gets_a_sentence(
    visit: Any, stranger: Any
) -> None:
    """The curves and a simulation that one visitor has added."""
    visit.open(LIGHT + SMALL)
    visit.page.get_by_label("Gaussian weights", exact=True).check()
    visit.wait_for_setting("prior", "gaussian")
    visit.page.get_by_role("button", name="Add simulation").click()
    visit.simulation(0).get_by_text("3 of 3, finished").wait_for()
    visit.wait_for_setting("run", "simulation:amp")
    # Later changes of the page are none of the simulation's.
    visit.page.get_by_label("Dimension d", exact=True).fill("77")
    visit.wait_for_setting("run", "simulation:amp,dimension:60")
    assert visit.page.locator("label[for=link]").inner_text() == "Link for this machine"
    link = "new URL(document.querySelector('#link').value)"
    shared = f"[...{link}.searchParams].filter(([name]) => name !== 'token')"
    until(
        visit.page,
        f"new URLSearchParams({shared}).toString()"
        " === new URLSearchParams(location.search).toString()",
    )
    visit.wait_until_gone("AMP")
    other = stranger
    other.page.goto(visit.page.locator("#link").input_value())
    other.ready()
    for one in (visit, other):
        one.wait_for_curve("Bayes-optimal", "t.x.length >= 12")
        one.wait_for_curve("square loss", "t.x.length >= 12")
        one.simulation(0).get_by_text("3 of 3, finished").wait_for()
        one.wait_for_curve("AMP, d = 60", "t.mode === 'markers' && t.x.length === 3")
    assert other.curves() == visit.curves()
    assert other.page.get_by_label("Gaussian weights", exact=True).is_checked()
    assert other.page.get_by_label("Points", exact=True).input_value() == "12"
    visit.simulation(0).get_by_role("button", name="Remove").click()
    until(visit.page, "document.querySelector('#slot-0').hidden")
    visit.wait_until_gone("AMP, d = 60")
    other.wait_for_curve("AMP, d = 60", "t.x.length === 3")  # the other's own stays
    other.open("?k=1e99&prior=%3Cscript%3E")
    other.page.get_by_role("alert").get_by_text("This link cannot be shown").wait_for()
    # A control out of its range: a sentence as well. The figures stay, and are called old.
    visit.page.get_by_label("Classes k", exact=True).fill("77")
    visit.page.get_by_role("alert").get_by_text("from 2 to 50, got 77").wait_for()
    visit.page.get_by_role("alert").get_by_text("still show the previous settings").wait_for()
    visit.wait_for_curve("Bayes-optimal")
    until(visit.page, "document.querySelector('#learning-plot').className === 'plot stale'")
    assert not visit.page.locator("#status").is_visible()
    visit.page.get_by_label("Classes k", exact=True).fill("3")
    visit.ready()
    assert visit.page.locator("#status").is_visible()


def test_what_is_typed_again_after_going_back_is_taken(visit: Any) -> None:
    """An input for numbers kept what it had told, and did not tell it again."""
    page = visit.page
    visit.open("?estimators=square&points=5")
    box = page.get_by_label("Classes k", exact=True)
    box.fill("2")
    visit.wait_for_setting("k", "2")
    page.go_back()
    until(page, "document.querySelector('#control-k').value === '3'")
    visit.ready()
    box.fill("2")
    visit.wait_for_setting("k", "2")


def test_clusters_are_simulated_by_what_works(visit: Any) -> None:
    """Message passing, which the page opens with, has no rule for clusters."""
    visit.open("?estimators=square&points=5&high=2.0" + SMALL)
    visit.page.get_by_label("Gaussian clusters").check()
    visit.wait_for_setting("simulation", "cross-entropy")
    assert visit.page.get_by_text("Method: cross-entropy").is_visible()
    visit.page.get_by_role("button", name="Add simulation").click()
    visit.simulation(0).get_by_text("3 of 3, finished").wait_for()


def test_the_chosen_alpha_follows_the_axis(visit: Any) -> None:
    visit.open("?estimators=square&points=5&high=4.0&alpha=3.9")
    visit.page.get_by_label("α to", exact=True).fill("2.5")
    visit.wait_for_setting("alpha", "2.5")
    visit.open("?estimators=bayes&points=5&alpha=3.9")  # the range follows the transitions
    visit.page.get_by_label("Classes k", exact=True).fill("2")
    visit.wait_for_setting("alpha", "3.5")
    assert visit.page.get_by_label("Chosen α").input_value() == "3.5"


def test_the_link_is_copied_and_cards_are_in_sight(visit: Any) -> None:
    page = visit.page
    visit.open("?estimators=square&points=5")
    page.set_viewport_size({"width": 1280, "height": 800})
    for name in ("Add simulation", "Copy link", "Download page (HTML)"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box["y"] + box["height"] <= 800
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#link").input_value()
    assert "token=" in copied
    page.get_by_label("Gaussian weights", exact=True).check()
    page.get_by_role("button", name="Copy link").wait_for()
    note = page.locator("#landscape-note")
    assert "barrier is the minimum between two maxima" in note.inner_text()
    group = page.locator(".group").first
    group.locator("summary").first.click()  # settings fold in groups
    assert not page.get_by_label("Classes k", exact=True).is_visible()
    group.locator("summary").first.click()


LOOKS = """
() => {
    const plot = document.querySelector('#learning-plot');
    const curve = () => plot.querySelector('.js-plotly-plot').data[0].x.at(-1);
    window.looks = [];
    window.slow = [];
    new MutationObserver(() => window.looks.push([plot.className, curve()])).observe(
        plot, {attributeFilter: ['class']});
    const graph = plot.querySelector('.js-plotly-plot');
    graph.on('plotly_afterplot', () => window.slow.push(
        graph.data.find((t) => t.name === 'cross-entropy')?.x));
}
"""


def _old_curves_are_dimmed_and_the_range_follows(visit: Any, workers: Any) -> None:
    page = visit.page
    visit.wait_for_curve("cross-entropy", "t.x.at(-1) === 4")
    page.evaluate(LOOKS)
    for worker in workers:
        worker.suspend()  # as if the new curves took long
    page.get_by_label("Classes k", exact=True).fill("2")
    until(page, "document.querySelector('#learning-plot').className === 'plot stale'")
    for worker in workers:
        worker.resume()
    # α_algo = 2.49: the range, which ended at 4, goes less far.
    visit.wait_for_curve("Bayes-optimal", "t.x.at(-1) === 3.5")
    until(page, "document.querySelector('#learning-plot').className === 'plot'")
    # The old curve is dimmed until there is a new one.
    looks = page.evaluate("window.looks")
    assert looks[0] == ["plot stale", 4]
    assert {end for look, end in looks if look == "plot"} == {3.5}
    until(page, "getComputedStyle(document.querySelector('#learning')).opacity === '1'")
    assert page.get_by_label("α to", exact=True).is_hidden()
    assert page.get_by_label("Chosen α").get_attribute("max") == "3.5"
    notes = page.locator("#learning .annotation").all_text_contents()
    assert ["IT" in notes[0], "algo" in notes[1]] == [True, True]
    # The slow curve fills in between its ends.
    visit.wait_for_curve("cross-entropy", "t.x.length >= 5 && t.x.at(-1) === 3.5")
    drawn = [x for x in page.evaluate("window.slow") if x and x[-1] != 4]
    assert {(x[0], x[-1]) for x in drawn} == {(0.1, 3.5)}
    page.get_by_label("Gaussian weights", exact=True).check()  # no transitions: the usual range
    visit.wait_for_curve("Bayes-optimal", "t.x.at(-1) === 4")


CONTRAST = """
() => {
    const channel = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = (rgb) => {
        const [r, g, b] = rgb.map((c) => channel(c / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
    const ground = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const c = numbers(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0.99) return c.slice(0, 3);
        }
        return [255, 255, 255];
    };
    const poor = [];
    const walker = document.createTreeWalker(document.querySelector('.page'), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const e = walker.currentNode.parentElement;
        const hidden = e.closest('svg, :disabled') || !e.offsetParent;
        if (hidden || !walker.currentNode.data.trim()) continue;
        const a = light(numbers(getComputedStyle(e).color).slice(0, 3)), b = light(ground(e));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) poor.push([walker.currentNode.data, ratio]);
    }
    return poor;
}
"""


def _on_a_phone_the_figure_comes_first_and_the_settings_fold(visit: Any) -> None:
    page = visit.page
    control = page.get_by_label("Classes k", exact=True)
    summary = page.get_by_text("Settings", exact=True)
    assert page.locator("#learning").bounding_box()["y"] < 250
    assert page.locator("#learning").bounding_box()["y"] < summary.bounding_box()["y"]
    assert not control.is_visible()
    visit.resize(1280)
    until(page, "document.querySelector('#settings-fold').open")
    assert not summary.is_visible()
    assert control.bounding_box()["x"] < page.locator("#learning").bounding_box()["x"]
    visit.resize(400)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # at once
    until(page, "!document.querySelector('#settings-fold').open")
    summary.click()
    assert control.is_visible()


def _every_control_is_reached_with_the_tab_key(page: Any) -> None:
    wanted = set(
        page.evaluate(
            """[...document.querySelectorAll('.page input, .page button')].filter(e =>
                 !e.disabled && e.tabIndex >= 0 && e.offsetParent && e.checkVisibility()
                 && !(e.type === 'radio' && !e.checked) && !e.closest('.js-plotly-plot'))
               .map((e, i) => { e.dataset.stop = `stop ${i}`; return e.dataset.stop; })"""
        )
    )
    assert len(wanted) > 20
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(3 * len(wanted)):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.stop || ''"))
        if wanted <= reached:
            break
    assert wanted <= reached


def test_names_contrast_keyboard_and_width_and_what_is_out_of_date_is_dimmed(
    server: Any, visit: Any
) -> None:
    page = visit.page
    visit.open("?estimators=bayes,cross-entropy&points=5")
    visit.resize(400)
    until(page, "!document.querySelector('#settings-fold').open")
    _on_a_phone_the_figure_comes_first_and_the_settings_fold(visit)
    assert page.evaluate(CONTRAST) == []
    visit.resize(1280)
    until(page, "document.querySelector('#settings-fold').open")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    _every_control_is_reached_with_the_tab_key(page)
    _old_curves_are_dimmed_and_the_range_follows(visit, server.process.children(recursive=True))
    assert page.title() == "polyceptron explorer"
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("h1").count() == 1
    nameless = page.evaluate(
        """[...document.querySelectorAll('input, button, select, textarea')].filter(e =>
             !(e.labels && e.labels.length && e.labels[0].textContent.trim())
             && !e.innerText.trim() && !e.getAttribute('aria-label')).map(e => e.outerHTML)"""
    )
    assert nameless == []
    twice = page.evaluate(
        """(() => {const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
             return ids.filter((id, i) => ids.indexOf(id) !== i && !document.querySelector(
                 `svg #${CSS.escape(id)}`))})()"""
    )
    assert twice == []
    assert page.locator('[role="listbox"], label[role="option"]').count() == 0
    faint = "document.querySelector('main').append(Object.assign(document.createElement('p'), "
    faint += "{id: 'faint', style: 'color: #aaa', innerText: 'too faint'}))"
    page.evaluate(faint)
    assert [text for text, _ in page.evaluate(CONTRAST)] == ["too faint"]  # the check can fail
    page.evaluate("document.querySelector('#faint').remove()")
    # Arrow keys choose among radio buttons.
    page.get_by_label("Gaussian weights", exact=True).focus()
    page.keyboard.press("ArrowDown")
    visit.wait_for_setting("prior", "rademacher")
    page.get_by_role("checkbox", name="cross-entropy").focus()
    page.keyboard.press("Space")
    visit.wait_for_setting("estimators", "bayes")
