"""The live page in a real browser: each view, each control, widths and themes.

Skipped without Gradio, Playwright or Chromium. tests/README.md has the command.
"""

import contextlib
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

# Playwright first: where it is missing, Gradio is not imported into this process.
api = pytest.importorskip("playwright.sync_api")
gradio = pytest.importorskip("gradio")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("needs Chromium", allow_module_level=True)

from small_networks import two_layers  # noqa: E402

from keras_attention.explore import examples, page  # noqa: E402
from keras_attention.explore.worker import Worker  # noqa: E402

# Gradio and its web framework use what later versions deprecate.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]  # it renders
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = {"wide": (1440, 900), "medium": (1024, 768), "narrow": (390, 844)}
PATIENCE = 60_000  # milliseconds, for a machine with other work
TABS = [name for name, _ in page.TABS]
SHOTS = os.environ.get("KERAS_ATTENTION_SHOTS")  # a folder for screenshots


@pytest.fixture(scope="module")
def worker():
    with Worker() as made:
        yield made


@pytest.fixture(scope="module")
def address(worker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    yield page.launch(worker, two_layers(folder / "mine.keras"), wait=False)
    gradio.close_all()


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


class Page:
    """A page of the browser, with all its requests and messages."""

    def __init__(self, browser, address, size="wide", scheme="light"):
        width, height = SIZES[size]
        self.name = f"{size}_{scheme}"
        self.problems = []
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.on("request", self._request)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.goto(address)
        self.page.locator("attention-view").first.wait_for()  # the first tab's

    def _request(self, request):
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:http")):
            self.problems.append(f"a request to {request.url}")

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def view(self, tab):
        """Opens a tab and waits for its view."""
        found = self.page.get_by_role("tab", name=tab, exact=True)
        if not found.is_visible():
            self.page.locator(".overflow-menu > button").click()
            found = self.page.locator(".overflow-dropdown button", has_text=tab)
        found.click()
        self.panel = self.page.locator('[role="tabpanel"]:visible')
        self.element.wait_for()
        return self

    @property
    def element(self):
        return self.panel.locator("attention-view")

    def data(self):
        return self.element.get_attribute("data")

    def press(self, name):
        """Presses a button that calls the server, and waits for the new view."""
        before = self.data()
        self.panel.get_by_role("button", name=name).first.click()
        self.changed(before)

    def changed(self, before):
        end = time.monotonic() + PATIENCE / 1000
        while self.data() == before:
            assert time.monotonic() < end, "the view has not changed"
            self.page.wait_for_timeout(50)

    def says(self, text):
        api.expect(self.panel.get_by_role("alert")).to_contain_text(text)

    def status(self):
        return self.element.get_by_role("status").inner_text()

    def shot(self, name):
        if SHOTS:
            path = pathlib.Path(SHOTS) / f"{name}_{self.name}.png"
            self.page.screenshot(path=path, full_page=True)

    def fits(self):
        width = SIZES[self.name.split("_")[0]][0]
        wide = """width => [...document.querySelectorAll("main *")]
            .filter((node) => node.getBoundingClientRect().right > width + 1)
            .map((node) => node.outerHTML.slice(0, 200)).slice(0, 3)"""
        wider = "document.documentElement.scrollWidth - window.innerWidth"
        assert self.page.evaluate(wider) <= 0, self.page.evaluate(wide, width)

    def close(self):
        self.context.close()
        assert not self.problems


def story(page):
    page.view("Story")
    box = page.panel.get_by_label("Story", exact=True)
    box.fill("John got the apple there.\nMary went to the kitchen.")
    page.press("Answer")
    assert page.element.locator("tbody tr").count() == 2
    page.element.get_by_role("button", name="hop 2").click()
    assert "Hop 2 attends most to" in page.status()
    assert page.element.locator(".is-dim").count() == 2 * 4  # other hops
    before = page.data()
    page.panel.get_by_label("Question", exact=True).fill("where is daniel")
    page.panel.get_by_label("Question", exact=True).press("Enter")
    page.changed(before)
    before = page.data()
    page.panel.get_by_text("Mary moved to the bathroom", exact=False).first.click()
    page.changed(before)
    box.fill("")
    page.panel.get_by_role("button", name="Answer").click()
    page.says("write a story first")
    box.fill("word " * 10_000)
    page.panel.get_by_role("button", name="Answer").click()
    page.says("there are 10,000")
    box.fill("The <b>zebra</b> ran.")
    page.panel.get_by_role("button", name="Answer").click()
    page.says("zebra")
    box.fill("John got the apple there.\nMary went to the kitchen.")
    page.panel.get_by_role("button", name="Answer").click()
    page.element.wait_for()


def sentence(page):
    page.view("Sentence")
    words = page.element.locator("button.word")
    words.nth(2).hover()
    assert "attends to" in page.status()
    words.nth(2).press("ArrowLeft")
    assert page.status().startswith("“the” attends to")
    page.element.get_by_label("Layer", exact=True).select_option("layer 1")
    page.element.get_by_label("Head", exact=True).select_option("head 2")
    page.element.get_by_label("Show", exact=True).select_option(
        "which words attend to it"
    )
    assert page.status().startswith("Who attends to")
    page.element.get_by_label("layer 2, head 1").click()
    assert page.element.get_by_label("Layer", exact=True).input_value() == "layer 2"
    page.element.get_by_text("The numbers, as a table").click()
    rows = page.element.locator("table tbody tr")
    api.expect(rows).to_have_count(words.count())
    page.panel.get_by_label("Sentence", exact=True).fill("the dog is in the house")
    page.press("Read")
    before = page.data()
    page.panel.get_by_label("fills a blank").check()
    page.changed(before)
    assert "___" in page.data()
    page.panel.get_by_label("Sentence", exact=True).fill("")
    page.panel.get_by_label("Sentence", exact=True).press("Enter")
    page.says("write a sentence first")
    page.panel.get_by_label("Sentence", exact=True).fill("She is ___ a book.")
    page.panel.get_by_role("button", name="Read").click()
    page.element.wait_for()


def translation(page):
    page.view("Translation")
    page.element.locator("tbody th button").first.hover()
    assert "attends to" in page.status()
    page.element.get_by_label("Head", exact=True).select_option("head 1")
    page.element.get_by_label("layer 1, head 2").click()
    assert page.element.get_by_label("Layer", exact=True).input_value() == "layer 1"
    page.panel.get_by_label("Text", exact=True).fill("een hond")
    page.press("Translate")
    before = page.data()
    page.panel.get_by_label("dates").check()
    page.changed(before)
    page.panel.get_by_label("Text", exact=True).fill("1979-05-04")
    before = page.data()
    page.panel.get_by_label("Text", exact=True).press("Enter")
    page.changed(before)
    page.panel.get_by_label("Text", exact=True).fill(" ")
    page.panel.get_by_role("button", name="Translate").click()
    page.says("write a text first")
    page.panel.get_by_label("Text", exact=True).fill("4 May 1979")
    page.panel.get_by_role("button", name="Translate").click()
    page.element.wait_for()


def hopfield(page):
    page.view("Hopfield")
    assert page.status().startswith("Energy")
    page.element.get_by_role("button", name="step 1", exact=True).click()
    page.element.get_by_label("Step", exact=True).fill("0")
    page.element.get_by_role("button", name="Play").click()
    api.expect(page.element.get_by_label("Step", exact=True)).not_to_have_value("0")
    before = page.data()
    grid = page.panel.locator("pattern-drawing .grid")
    box = grid.bounding_box()
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    page.page.mouse.move(box["x"] + 30, box["y"] + box["height"] - 30)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 90, box["y"] + box["height"] - 30, steps=8)
    page.page.mouse.up()
    page.changed(before)
    before = page.data()
    grid.press("ArrowDown")
    grid.press(" ")
    page.changed(before)
    for label, choice in (("Digit", "7"), ("Hide", "left half")):
        before = page.data()
        page.panel.get_by_label(label, exact=True).click()
        page.page.get_by_role("option", name=choice, exact=True).click()
        page.changed(before)
    before = page.data()
    beta = page.panel.locator('input[type="number"]')
    beta.fill("2")
    beta.press("Enter")
    page.changed(before)
    assert "Here β is 2." in page.data()
    before = page.data()
    page.panel.get_by_label("Hide", exact=True).click()
    page.page.get_by_role("option", name="all", exact=True).click()
    page.says("Nothing is drawn yet")
    page.panel.get_by_label("Hide", exact=True).click()
    page.page.get_by_role("option", name="right half", exact=True).click()
    page.element.wait_for()


def memory(page):
    page.view("Memory")
    page.element.get_by_label("Step", exact=True).fill("3")
    assert page.status()
    page.element.get_by_role("button", name="step 9:").click()
    assert page.element.get_by_label("Step", exact=True).input_value() == "8"
    page.element.get_by_role("button", name="Play").click()
    api.expect(page.element.get_by_label("Step", exact=True)).not_to_have_value("8")
    page.element.locator("canvas").first.click(position={"x": 2, "y": 5})
    assert page.element.get_by_label("Step", exact=True).input_value() == "0"
    page.panel.get_by_label("Route").fill("Bank | west")
    page.press("Follow the route")
    before = page.data()
    page.panel.get_by_text("Park | west | south | north").click()
    page.changed(before)
    page.panel.get_by_label("Edges").fill("no edge")
    page.panel.get_by_role("button", name="Follow the route").click()
    page.says("An edge is a place")
    page.panel.get_by_label("Edges").fill("A | 1 | B\nB | 1 | A")
    page.panel.get_by_label("Route").fill("A | 1 | 1")
    page.panel.get_by_label("Route").press("Enter")
    page.element.wait_for()


def softmax(page):
    page.view("Softmax")
    outputs = page.element.locator(".bars .share")
    page.element.get_by_role("button", name="the mean of all").click()
    assert {text[:2] for text in outputs.all_inner_texts()} <= {"12", "13"}
    page.element.get_by_role("button", name="the maximum").click()
    assert "100.0 %" in outputs.all_inner_texts()
    page.element.get_by_role("button", name="water").click()
    assert "“water” spreads" in page.status()
    page.element.get_by_label("Temperature T").fill("0")
    assert page.element.get_by_label("β", exact=True).input_value() == "0"
    page.element.get_by_label("Heads", exact=True).fill("2")
    assert page.element.locator(".bars .bar").count() == 4 * outputs.count()
    assert page.status().endswith("(each head).")
    page.panel.get_by_label("Words", exact=True).fill("mother coffee")
    page.press("Show")
    page.panel.get_by_label("Words", exact=True).fill("xyzzy coffee")
    page.panel.get_by_label("Words", exact=True).press("Enter")
    page.says("never learned")
    page.panel.get_by_label("Words", exact=True).fill("mother father coffee")
    page.panel.get_by_role("button", name="Show").click()
    page.element.wait_for()


def own_model(page):
    page.view("Your model")
    page.panel.get_by_label("ids").fill("3 4 5")
    page.press("Show")
    page.element.get_by_label("Layer", exact=True).select_option("self")
    page.panel.get_by_label("ids").fill("three")
    page.panel.get_by_role("button", name="Show").click()
    page.says("takes whole numbers")
    page.panel.get_by_label("ids").fill("1 2 3")
    page.panel.get_by_role("button", name="Show").click()
    page.element.wait_for()


STEPS = (own_model, story, sentence, translation, hopfield, memory, softmax)


@pytest.mark.parametrize(
    ("size", "scheme"),
    [("wide", "light"), ("narrow", "dark"), ("narrow", "light"), ("wide", "dark")],
)
def test_each_view_and_each_control(browser, address, tmp_path, size, scheme):
    page = Page(browser, address, size, scheme)
    for use in STEPS:
        use(page)
        page.shot(use.__name__)
        page.fits()
        with page.page.expect_download() as download:
            page.element.get_by_role("button", name="Save as one HTML file").click()
        path = tmp_path / f"{use.__name__}.html"
        download.value.save_as(path)
        opens_from_disk(browser, path, size, scheme)
    page.close()


BROKEN_WORDS = """view => {
    const broken = [];
    for (const cell of view.shadowRoot.querySelectorAll(".hops tbody th")) {
        const text = cell.firstChild;
        for (const word of text.data.matchAll(/\\S+/g)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (range.getClientRects().length > 1) broken.push(word[0]);
        }
    }
    return broken;
}"""


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_out_of_sight_and_no_tab_moves_the_page(browser, address, size):
    page = Page(browser, address, size)
    edges = set()
    for name in TABS:
        assert page.page.get_by_role("tab", name=name, exact=True).is_visible()
        page.view(name)
        box = page.page.locator("main").first.bounding_box()
        edges.add((box["x"], box["width"]))
        for frame in page.element.locator(".frame").all():
            assert frame.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
        assert page.element.evaluate(BROKEN_WORDS) == []
        assert page.panel.get_by_text("docs/guides/").is_visible()
        assert page.panel.get_by_text("Examples").is_visible()
    assert len(edges) == 1
    page.close()


def opens_from_disk(browser, path, size, scheme):
    """A saved file shows its view without any request but that for itself."""
    assert path.stat().st_size < 2_000_000
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
    )
    page, problems = context.new_page(), []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url))
    page.goto(path.as_uri())
    assert page.locator("attention-view").get_by_role("status").inner_text()
    assert page.locator("h1").inner_text() == page.title()
    wider = "document.documentElement.scrollWidth - window.innerWidth"
    assert page.evaluate(wider) <= 0
    assert problems == [path.as_uri()]
    context.close()


def test_a_saved_file_is_what_to_html_writes(browser, address, tmp_path):
    from keras_attention.explore.views import story as view
    from keras_attention.visualization import to_html

    page = Page(browser, address).view("Story")
    with page.page.expect_download() as download:
        page.element.get_by_role("button", name="Save as one HTML file").click()
    download.value.save_as(tmp_path / "saved.html")
    to_html(tmp_path / "written.html", view.look(*examples.STORIES[0]))
    page.close()
    names = ("saved.html", "written.html")
    saved, written = ((tmp_path / name).read_text("utf-8") for name in names)
    assert saved == written


def test_two_people_do_not_mix(browser, address):
    stories = "Mary went to the kitchen.", "Daniel went back to the hallway."
    people = Page(browser, address), Page(browser, address, "narrow", "dark")
    for one, text in zip(people, stories):
        one.view("Story")
        one.panel.get_by_label("Story", exact=True).fill(text)
    for one in people:  # both wait for their answers at once
        one.panel.get_by_role("button", name="Answer").click()
    for one, text, other in zip(people, stories, reversed(stories)):
        api.expect(one.element).to_have_attribute("data", re.compile(re.escape(text)))
        assert other not in one.data()
        one.close()


def test_a_damaged_file_is_told_on_the_page(browser, worker, tmp_path):
    path = tmp_path / "damaged.keras"
    path.write_bytes(b"not a model")
    blocks_address = page.launch(worker, path, wait=False)
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(blocks_address)
    alert = opened.get_by_role("alert").first
    api.expect(alert).to_contain_text(
        "damaged.keras cannot be opened", timeout=PATIENCE
    )
    assert "Traceback" not in opened.content()
    context.close()


def test_a_killed_worker_is_told_on_the_page(browser, address):
    page = Page(browser, address).view("Story")
    answer = page.panel.get_by_role("button", name="Answer")
    (process,) = multiprocessing.active_children()
    os.kill(process.pid, signal.SIGSTOP)
    with page.page.expect_request("**/queue/join*"):
        answer.click()
    page.page.wait_for_timeout(500)  # the worker has the request now
    process.kill()
    page.says("has ended")
    assert "Traceback" not in page.page.content()
    answer.click()
    page.element.wait_for()
    page.close()


@contextlib.contextmanager
def command(*arguments):
    """The command, with its address."""
    start = [sys.executable, "-W", "ignore", "-m", "keras_attention.explore"]
    with subprocess.Popen(
        [*start, "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, re.search(r"http\S+", process.stdout.readline())[0]
        finally:
            process.kill()


def test_the_command_shows_its_first_view_and_ends_with_ctrl_c(browser):
    with command() as (process, address):
        page = Page(browser, address)
        page.view("Story")
        page.close()
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)  # the worker has ended, too, or it waits
    assert process.returncode == 0
    assert "Traceback" not in "".join(told)
