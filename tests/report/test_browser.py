"""The page as a person uses it, in a real browser."""

import json
import re

import pytest

from focalcal.metrics import ada_ece, ece, nll
from focalcal.report.scaling import Scaling
from report.conftest import HOSTILE, all_right, world


def shown(tab, name):
    """A live number; percent as a fraction."""
    text = tab.locator(f"#live-{name}").inner_text().replace("−", "-")
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def slide_to(tab, index):
    tab.locator("#temperature").evaluate(
        "(slider, index) => { slider.value = index; slider.dispatchEvent(new Event('input', {bubbles: true})); }", index
    )


def wait_until(tab, expression):
    """Wait for something to become true, without the eval in the page that its own rules forbid."""
    for _ in range(100):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"not true within five seconds: {expression}")


def stops(tab):
    return [stop["t"] for stop in json.loads(tab.locator("#data").text_content())["models"][0]["stops"]]


def scaled(preds, temperature):
    return Scaling((temperature,), "val", 1).apply(preds)


def test_the_slider_shows_what_the_library_computes(opened):
    tab = opened("single")
    test = world(800, 4)
    for index in range(0, len(stops(tab)), 7):
        temperature = stops(tab)[index]
        slide_to(tab, index)
        preds = scaled(test, temperature)
        assert shown(tab, "ece") == pytest.approx(ece(preds), abs=1e-4)
        assert shown(tab, "nll") == pytest.approx(nll(preds), abs=1e-3)
        assert tab.locator("#temperature-value").inner_text() == f"T = {temperature:.{2 if temperature < 10 else 1}f}"


def test_bins_can_be_chosen(opened):
    tab = opened("single")
    test = world(800, 4)
    tab.locator("#bins").select_option("50")
    assert shown(tab, "ece") == pytest.approx(ece(test, bins=50), abs=1e-4)
    tab.locator("input[value=mass]").check()
    assert shown(tab, "ece") == pytest.approx(ada_ece(test, bins=50), abs=1e-4)
    assert tab.locator("#ece-title").inner_text() == "AdaECE"
    rows = tab.locator("#bin-table tbody tr")
    assert rows.count() == 50
    assert tab.evaluate("document.getElementById('reliability').data.length") == 5


def test_the_chart_moves_with_the_slider(opened):
    tab = opened("single")
    # Where the points stand on the screen.
    points = "[...document.querySelectorAll('#reliability .point')].map(point => point.getAttribute('transform'))"
    before = tab.evaluate(points)
    tab.locator("#go-fitted").click()
    assert tab.evaluate(points) != before
    assert shown(tab, "ece") < 0.05
    tab.locator("#go-neutral").click()
    assert tab.evaluate(points) == before
    tab.locator("#smooth").uncheck()
    tab.locator("#other").uncheck()
    assert tab.evaluate("document.getElementById('reliability').data.length") == 3


def test_the_slider_obeys_the_keyboard(opened):
    tab = opened("single")
    slider = tab.locator("#temperature")
    slider.focus()
    start = int(slider.input_value())
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#temperature-value").inner_text() == f"T = {stops(tab)[start + 1]:.2f}"
    assert slider.get_attribute("aria-valuetext") == f"T = {stops(tab)[start + 1]:.2f}"
    tab.keyboard.press("Home")
    assert tab.locator("#temperature-value").inner_text() == "T = 0.10"


def column(tab, number):
    texts = tab.locator(f"#classes tbody tr > :nth-child({number})").all_inner_texts()
    return [float(re.sub(r"[%,+]", "", text).replace("−", "-")) for text in texts]


@pytest.mark.parametrize(("heading", "number"), [("accuracy", 3), ("gap", 5), ("recall", 8), ("classwise ECE", 9)])
def test_classes_can_be_sorted(opened, heading, number):
    tab = opened("single")
    button = tab.locator("#classes thead button", has_text=heading)
    head = tab.locator(f"#classes thead th:nth-child({number})")
    if head.get_attribute("aria-sort") != "descending":
        button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(tab, number) == sorted(column(tab, number), reverse=True)
    button.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(tab, number) == sorted(column(tab, number))


def test_a_class_can_be_found_and_chosen(opened):
    tab = opened("single")
    tab.locator("#class-filter").fill("PLAIN")
    assert tab.locator("#classes tbody tr").count() == 1
    before = tab.evaluate("document.getElementById('class-diagram').data.at(-1).y")
    tab.locator("#classes tbody button").press("Enter")
    assert tab.locator("#class-name").inner_text() == "plain"
    assert tab.locator("#classes tr.selected").count() == 1
    assert tab.evaluate("document.getElementById('class-diagram').data.at(-1).y") != before


def test_hostile_names_are_text(opened):
    tab = opened("single")
    names = tab.locator("#classes tbody button").all_inner_texts()
    assert sorted(names) == sorted(HOSTILE)
    assert tab.locator("main script, main [onerror], main i").count() == 0
    assert "<i>model</i>" in tab.locator("h1").inner_text()
    # Every image is one of ours.
    sources = tab.locator("img").evaluate_all("images => images.map(image => image.src.slice(0, 22))")
    assert len(sources) == 24
    assert set(sources) == {"data:image/png;base64,"}


def test_the_numbers_can_be_downloaded(opened):
    tab = opened("single")
    with tab.expect_download() as download:
        tab.locator("#download").click()
    assert download.value.suggested_filename == "numbers.json"
    with open(download.value.path(), encoding="utf-8") as file:
        numbers = json.load(file)
    assert numbers["models"][0]["before"]["values"]["ece"] == pytest.approx(ece(world(800, 4)))
    assert numbers["models"][0]["temperature"]["source"] == "val"


def test_models_can_be_chosen(opened):
    tab = opened("comparison")
    assert tab.locator(".comparison tbody tr").count() == 2
    assert tab.locator("td.best").count() == 9
    assert tab.locator("#training .chart").count() == 5
    assert tab.locator("#ood-section").is_visible()
    first = tab.locator(".verdict:visible").inner_text()
    tab.locator("#model").select_option("1")
    tab.wait_for_selector("html[data-drawn]")
    assert tab.locator(".verdict:visible").count() == 1
    assert tab.locator(".verdict:visible").inner_text() != first
    assert not tab.locator("#ood-section").is_visible()


def test_differences_can_be_chosen(opened):
    tab = opened("comparison")
    tab.locator("#pair-metric").select_option("ece")
    rows = tab.locator("#pairs tbody tr:visible")
    assert rows.count() == 1
    assert "significant: flsd-53 is lower" in rows.inner_text()
    tab.locator("#pair-when").select_option("after")
    assert "scaled" in rows.inner_text()


@pytest.mark.parametrize(
    ("name", "scheme"), [("single", "light"), ("single", "dark"), ("comparison", "dark"), ("many_classes", "light")]
)
def test_anyone_can_use_it(opened, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    tab = opened(name)
    tab.emulate_media(color_scheme=scheme)
    if name == "many_classes":
        tab.locator("#class-filter").fill("99")  # a thousand rows would take long, and are all alike
    found = Axe().run(tab).response["violations"]
    serious = [item for item in found if item["impact"] in ("serious", "critical")]
    assert [(item["id"], item["nodes"][0]["html"][:200]) for item in serious] == []


@pytest.mark.parametrize("name", ["single", "comparison", "many_classes", "tiny"])
def test_a_phone_need_not_scroll_sideways(opened, name):
    tab = opened(name)
    tab.set_viewport_size({"width": 360, "height": 740})
    wait_until(tab, "document.querySelector('#reliability .main-svg').getBoundingClientRect().width <= 340")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    assert tab.locator("#reliability").bounding_box()["width"] <= 340


def test_the_theme_can_be_chosen(opened):
    tab = opened("single")
    background = "getComputedStyle(document.body).backgroundColor"
    ink = "document.getElementById('reliability').layout.font.color"
    light = tab.evaluate(background), tab.evaluate(ink)
    tab.locator("#theme").click()
    assert (tab.evaluate(background), tab.evaluate(ink)) == light
    tab.locator("#theme").click()
    dark = tab.evaluate(background), tab.evaluate(ink)
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    tab.locator("#theme").click()
    tab.emulate_media(color_scheme="dark")
    wait_until(tab, f"{ink} === '{dark[1]}'")
    assert tab.evaluate(background) == dark[0]


def test_print_has_no_controls(opened):
    tab = opened("comparison")
    tab.emulate_media(media="print", color_scheme="dark")
    for name in ("#temperature", "#theme", "#model", "#class-filter", "#bins"):
        assert not tab.locator(name).is_visible()
    assert tab.locator("#live-ece").is_visible()
    assert tab.locator("#reliability .scatterlayer").is_visible()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    wait_until(tab, "document.getElementById('reliability').layout.font.color === 'rgb(28, 35, 51)'")


def test_a_thousand_classes(opened):
    tab = opened("many_classes")
    assert tab.locator("#classes tbody tr").count() == 1000
    tab.locator("#classes tbody button").nth(500).click()
    assert tab.locator("#class-diagram .scatterlayer .point").count() >= 1


def test_twenty_samples_without_a_mistake(opened):
    tab = opened("tiny")
    assert shown(tab, "ece") == pytest.approx(ece(all_right()), abs=1e-4)
    assert "Evaluate on more samples" in tab.locator(".verdict").inner_text()
    assert not tab.locator("#go-fitted").is_visible()
    assert "No temperature is proposed" in tab.locator(".verdict").inner_text()
    assert "There are no mistakes" in tab.locator("#mistakes").inner_text()


def test_a_temperature_at_the_end_of_the_slider(opened):
    tab = opened("sharp")
    assert stops(tab)[-1] > 10
    tab.set_viewport_size({"width": 390, "height": 740})
    wait_until(tab, "document.querySelector('#reliability .main-svg').getBoundingClientRect().width <= 370")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    box = tab.locator("#mark-fitted").bounding_box()
    assert box["x"] + box["width"] <= 390


def test_whiskers_are_the_intervals(opened):
    tab = opened("comparison")
    models = json.loads(tab.locator("#data").text_content())["models"]
    traces = tab.evaluate("document.getElementById('bars').data.map(({y, error_y}) => [y, error_y && error_y.array])")
    for when, (middle, half) in (("before", traces[1]), ("after", traces[3])):
        ends = [model[when]["intervals"]["ece"] for model in models]
        assert [(m - h, m + h) for m, h in zip(middle, half, strict=True)] == [pytest.approx(end) for end in ends]
    assert tab.locator("#bars .yerror").count() >= 4


def test_the_chosen_class_is_said_to_be_pressed(opened):
    tab = opened("single")
    tab.locator("#classes tbody button").nth(2).click()
    assert [row.get_attribute("aria-pressed") for row in tab.locator("#classes tbody button").all()] == [
        *("false", "false", "true", "false"),
    ]


def test_print_says_how_many_classes_there_are(opened):
    tab = opened("many_classes")
    line = tab.locator("#class-printed")
    assert not line.is_visible()
    tab.emulate_media(media="print")
    assert line.inner_text() == "Printed are the first 40 of 1,000 classes."
    assert tab.locator("#classes tbody tr:visible").count() == 40


def test_names_do_not_turn_what_stands_around_them(opened):
    tab = opened("single")
    for place in ("#classes tbody button", "#confusions tbody th", "#confusions td.name", "#mistakes .words", "h1"):
        assert tab.locator(f"{place} bdi").count() >= 1


def test_numbers_and_headings_stay_in_one_piece(opened):
    tab = opened("comparison")
    tab.set_viewport_size({"width": 360, "height": 740})
    style = "cell => getComputedStyle(cell).whiteSpace"
    assert set(tab.locator(".comparison thead th, .comparison td").evaluate_all(f"c => c.map({style})")) == {"nowrap"}
