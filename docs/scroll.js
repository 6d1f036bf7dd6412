// A frame that is wider than the page scrolls, and the keyboard reaches it.
const FRAMES =
  ".md-typeset :is(.equation, .md-typeset__scrollwrap, pre > code, p:has(> img))";

function mark() {
  for (const frame of document.querySelectorAll(FRAMES)) {
    if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  }
}

addEventListener("load", mark);
addEventListener("resize", mark);
