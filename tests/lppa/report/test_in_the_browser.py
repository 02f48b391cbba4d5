"""The page in a real browser: it loads, all is there, it fits a phone, and the live one grows."""

from __future__ import annotations

import threading

import pytest

from lppa.report.live import open_server
from lppa.report.reading import read_run
from lppa.report.write import write_page

LATE = (5, 1_200_000, 2_500_000)
PATIENCE = 120  # seconds; far more than a slow machine needs
CHARTS = {
    "Test accuracy",
    "Test loss",
    "Consensus",
    "Conservation",
    "Noise and gradient",
    "Time split",
    "Topology",
    "Weights",
    "Data partition",
    "Audit grade",
    "Audit",
}
# The contrast of a text with what is behind it, as the accessibility guidelines define it.
CONTRAST = """
const light = colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = element => {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(colour)) return colour;
  }
};
return [...document.querySelectorAll(`h1, h2, h3, p, dt, dd, th, summary, .status, li, .grade,
    .grade small, .leak, .verdict p`)]
  .filter(e => e.getClientRects().length).map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 80)];
  }).sort((x, y) => x[0] - y[0])[0];
"""
# Labels of the axes that lie on each other.
OVERLAPS = """
const found = [];
for (const chart of document.querySelectorAll("svg.chart:not(.graph)")) {
  const boxes = [...chart.querySelectorAll("text")].map(t => [t, t.getBoundingClientRect()]);
  boxes.forEach(([s, a], i) => boxes.slice(i + 1).forEach(([t, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && high > 4) found.push([chart.dataset.chart, s.textContent, t.textContent]);
  }));
}
return found;
"""


# Writing that is cut off at the edge of its chart.
CUT_OFF = """
return [...document.querySelectorAll("svg.chart")].flatMap(chart => {
  const edge = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].filter(t => {
    const box = t.getBoundingClientRect();
    return box.left < edge.left - 0.5 || box.right > edge.right + 0.5
      || box.top < edge.top - 0.5 || box.bottom > edge.bottom + 0.5;
  }).map(t => [chart.dataset.chart, t.textContent]);
});
"""
# The smallest writing on the page, as a person sees it: a chart grows and shrinks with its box.
SMALLEST = """
const size = e => parseFloat(getComputedStyle(e).fontSize);
const drawn = [...document.querySelectorAll("svg text")].map(t => {
  const chart = t.ownerSVGElement;
  return [size(t) * chart.clientWidth / chart.viewBox.baseVal.width, t.textContent];
});
const written = [...document.querySelectorAll("p, dt, dd, th, td, small, li, caption, figcaption")]
  .filter(e => e.getClientRects().length).map(e => [size(e), e.textContent.slice(0, 60)]);
return [drawn, written].map(all => all.sort((x, y) => x[0] - y[0])[0]);
"""


def show(browser, url, width=1200, scheme="light"):
    """Opens a page as a screen of that width and a person of that taste would see it."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get_log("browser")
    browser.get(url)


def eventually(browser, script):
    """Returns when the script says something true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, PATIENCE, 0.1).until(lambda b: b.execute_script(script))


@pytest.fixture
def pages(made_up, tmp_path):
    """One run, and two side by side of which one is large and has a long name."""
    name = "MANY-CLIENTS-AND-MANY-ROUNDS"
    one, two = made_up("one").whole(), made_up(name, nodes=40, rule="dsgt", rounds=LATE).whole()
    write_page([read_run(one.folder)], tmp_path / "single.html")
    write_page([read_run(run.folder) for run in (one, two)], tmp_path / "both.html")
    return [(tmp_path / name).as_uri() for name in ("single.html", "both.html")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_grade_has_a_colour_that_can_be_read(chromium, made_up, tmp_path, scheme):
    seen = set()
    for grade, ratio in (("open", 1e-7), ("weak", 5.0), ("hidden", 23976.0)):
        run = made_up(grade).begin().graded(grade, ratio).attacked()
        write_page([read_run(run.folder)], tmp_path / f"{grade}.html")
        show(chromium, (tmp_path / f"{grade}.html").as_uri(), 360, scheme)
        worst, where = chromium.execute_script(CONTRAST)
        assert worst >= 4.5, where
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= 360
        colours = "return ['.verdict', 'td.grade'].map(s => "
        colours += "getComputedStyle(document.querySelector(s)).backgroundColor)"
        seen |= set(chromium.execute_script(colours))
    assert len(seen) == 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_loads_from_disk_with_all_that_belongs_on_it(chromium, pages, width, scheme):
    for url in pages:
        show(chromium, url, width, scheme)
        assert chromium.get_log("browser") == []
        script = "return [...document.querySelectorAll('[data-chart]')].map(e => e.dataset.chart)"
        assert set(chromium.execute_script(script)) == CHARTS
        images = chromium.execute_script("return [...document.images].map(i => i.naturalWidth)")
        assert images
        assert all(images)
        drawn = "return [...document.querySelectorAll('svg')].map(s => s.clientHeight)"
        assert min(chromium.execute_script(drawn)) > 50
        wide = "return document.documentElement.scrollWidth"
        assert chromium.execute_script(wide) <= width
        out = "return [...document.querySelectorAll('.cards dd, figcaption, .attention')]"
        out += ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
        assert chromium.execute_script(out) == []
        worst, where = chromium.execute_script(CONTRAST)
        assert worst >= 4.5, where
        assert chromium.execute_script(OVERLAPS) == []
        assert chromium.execute_script(CUT_OFF) == []
        (drawn, label), (written, words) = chromium.execute_script(SMALLEST)
        assert drawn >= 10.5, label
        assert written >= 13, words


@pytest.mark.parametrize("width", [360, 1200])
def test_a_run_without_accuracy_fits_as_well(chromium, made_up, tmp_path, width):
    runs = made_up("one").regression(), made_up("two", nodes=40).regression()
    for name, shown in (("single", runs[:1]), ("both", runs)):
        write_page([read_run(run.folder) for run in shown], tmp_path / f"{name}.html")
        show(chromium, (tmp_path / f"{name}.html").as_uri(), width)
        assert chromium.get_log("browser") == []
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
        assert chromium.execute_script(OVERLAPS) == []
        assert chromium.execute_script(CUT_OFF) == []


# Each box that may scroll: what it hides, and how wide the fade is that shows it.
BOXES = """
return [...document.querySelectorAll(".wide")].filter(e => e.clientWidth).map(e =>
  [e.scrollWidth - e.clientWidth, parseFloat(getComputedStyle(e).getPropertyValue("--more"))]);
"""


def test_a_table_that_is_too_wide_scrolls_in_its_box_and_shows_it(chromium, pages):
    show(chromium, pages[1], 360)
    boxes = chromium.execute_script(BOXES)
    assert all((hidden > 0) == (fade > 0) for hidden, fade in boxes)
    hidden, fade = boxes[0]
    assert hidden > 0
    assert fade == 40
    seen = "const e = document.querySelector('.wide .figures tbody th'); "
    seen += "return e.getBoundingClientRect().left"
    left = chromium.execute_script(seen)
    chromium.execute_script("document.querySelector('.wide').scrollLeft = 9999")
    eventually(chromium, BOXES.replace(";\n", "[0][1] == 0;\n"))
    assert chromium.execute_script(seen) == left  # the names of the rows stay
    hint = "return getComputedStyle(document.querySelector('.swipe')).display"
    assert chromium.execute_script(hint) == "block"
    show(chromium, pages[0], 1200)
    assert all(hidden == fade == 0 for hidden, fade in chromium.execute_script(BOXES))


def test_light_and_dark_are_not_the_same(chromium, pages):
    colour = "return getComputedStyle(document.body).backgroundColor"
    seen = set()
    for scheme in ("light", "dark"):
        show(chromium, pages[0], scheme=scheme)
        seen.add(chromium.execute_script(colour))
    assert len(seen) == 2


def test_the_live_page_grows_with_its_run_and_keeps_its_place(chromium, made_up):
    run = made_up().begin()
    run.evaluate(5)
    dots = '[data-chart="Test accuracy"] circle'
    with open_server(run.folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            show(chromium, server.url)
            eventually(chromium, f"return document.querySelectorAll('{dots}').length == 1")
            chromium.execute_script(
                "document.querySelector('details').open = true; scrollTo(0, 70)"
            )
            run.evaluate(10)
            eventually(chromium, f"return document.querySelectorAll('{dots}').length == 2")
            assert chromium.execute_script("return document.querySelector('details').open")
            assert chromium.execute_script("return scrollY") == 70
            run.evaluate(15)
            run.end()
            eventually(chromium, "return document.getElementById('report').dataset.over == 'yes'")
            eventually(chromium, f"return document.querySelectorAll('{dots}').length == 3")
            assert chromium.get_log("browser") == []
        finally:
            server.shutdown()
            thread.join()
