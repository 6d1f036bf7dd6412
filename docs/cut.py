"""Lists what a reader of the built site cannot see, at two widths of the window.

`python docs/cut.py SITE` opens each page of the folder SITE in Chromium, 1440 and 390
pixels wide, and exits with 1 if anything is cut:

- a table, an equation, a block of code or a picture that is wider than its frame, where
  the frame does not scroll, has no scroll bar in sight, or is not reached by the
  keyboard;
- a page that scrolls sideways.

It needs Playwright and Chromium; without one of them it tells so and exits with 0.
"""

import shutil
import sys
from pathlib import Path

WIDTHS = (1440, 390)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
BAR = 4  # pixels, the least height of a scroll bar that one sees

# What is wider than a frame around it: [name, what is wrong or ""], "" if it scrolls.
MEASURE = """(bar) => {
  const page = document.documentElement, overflows = [];
  for (const closed of document.querySelectorAll("details:not([open])"))
    closed.open = true;
  const judge = (frame, style) => {
    if (!["auto", "scroll"].includes(style.overflowX)) return "its frame cuts it off";
    const { borderTopWidth: above, borderBottomWidth: below } = style;
    const inside = frame.offsetHeight - parseFloat(above) - parseFloat(below);
    if (inside - frame.clientHeight < bar)
      return "no scroll bar in sight";
    return frame.tabIndex < 0 ? "the keyboard does not reach its scroll bar" : "";
  };
  const state = (element) => {
    const box = element.getBoundingClientRect();
    const right = box.left + Math.max(box.width, element.scrollWidth || 0);
    for (let frame = element; frame !== page; frame = frame.parentElement) {
      const style = getComputedStyle(frame);
      if (style.overflowX === "visible") continue;
      if (["inline", "table"].includes(style.display)) continue; // it cannot scroll
      if (frame === element) {
        if (frame.scrollWidth > frame.clientWidth + 1) return judge(frame, style);
        continue;
      }
      const view = frame.getBoundingClientRect();
      const start = view.left + frame.clientLeft - frame.scrollLeft;
      if (right > start + frame.clientWidth + 1 || box.left < start - 1)
        return judge(frame, style);
    }
    return right > page.clientWidth + 1 ? "it leaves the window" : null;
  };
  const wanted = ".md-content :is(table, math, pre > code, img)";
  for (const element of document.querySelectorAll(wanted)) {
    if (!element.checkVisibility() || !element.getBoundingClientRect().width) continue;
    const wrong = state(element);
    if (wrong === null) continue;
    const text = (element.textContent || element.getAttribute("src")).trim();
    overflows.push([element.localName, text.replace(/\\s+/g, " ").slice(0, 60), wrong]);
  }
  if (page.scrollWidth > page.clientWidth)
    overflows.push(["page", "", "it scrolls sideways"]);
  return overflows;
}"""


def missing():
    """Why the pages cannot be opened here, or ""."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "needs Playwright"
    return "" if _chromium() else "needs Chromium"


def _chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def measure(paths, widths=WIDTHS):
    """What is wider than its frame.

    Args:
        paths: the files of pages.
        widths: of the window, in pixels.

    Returns:
        A list of tuples: the path, the width of the window, the element's tag, the
        start of its text, and what is wrong, or "" if it scrolls in sight.
    """
    from playwright.sync_api import sync_playwright

    overflows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_chromium(),
            args=FLAGS,
            ignore_default_args=["--hide-scrollbars"],
        )
        page = browser.new_page()
        page.set_default_timeout(0)
        page.route("**/search/**", lambda route: route.abort())  # it takes longest
        for path in paths:
            page.set_viewport_size({"width": widths[0], "height": 900})
            page.goto(Path(path).resolve().as_uri(), wait_until="load")
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_timeout(100)  # docs/scroll.js marks frames that scroll
                wider = page.evaluate(MEASURE, BAR)
                if any(wrong for *_, wrong in wider):  # on a busy machine, too early
                    page.wait_for_timeout(2000)
                    wider = page.evaluate(MEASURE, BAR)
                overflows += [(path, width, *each) for each in wider]
        browser.close()
    return overflows


def main(site, *names):
    """Prints what is cut, and how much scrolls in sight.

    Args:
        site: the folder of the built site.
        names: the pages to open, all without.

    Returns:
        The exit status: 1 if anything is cut.
    """
    reason = missing()
    if reason:
        print(f"No page was opened: {reason}.")
        return 0
    site = Path(site)
    paths = [site / name for name in names] or sorted(site.rglob("*.html"))
    overflows = measure(paths)
    cut = [each for each in overflows if each[-1]]
    for path, width, tag, text, wrong in cut:
        print(f"{path.relative_to(site)}, {width} px: {tag} {text!r}: {wrong}")
    for width in WIDTHS:
        scrolls = [each for each in overflows if each[1] == width and not each[-1]]
        print(f"{width} px: {len(scrolls)} scroll in sight")
    print(f"{len(paths)} pages, {len(cut)} cut")
    return int(bool(cut))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
