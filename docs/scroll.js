// What is wider than the page stands in a frame that scrolls, also by the keyboard.
const FRAMES = ".equation, .md-typeset__scrollwrap, pre > code, p:has(> img)";

function frame() {
  for (const math of document.querySelectorAll(".md-typeset math")) {
    const page = math.closest(".md-content__inner");
    const right = page?.getBoundingClientRect().right;
    if (!(math.getBoundingClientRect().right > right) || math.closest(FRAMES)) continue;
    const equation = document.createElement("span");
    equation.className = "equation";
    math.replaceWith(equation);
    equation.append(math);
  }
  for (const each of document.querySelectorAll(`.md-typeset :is(${FRAMES})`)) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}

addEventListener("load", frame);
addEventListener("resize", frame);
