// A grid of cells to draw on: "#" ink, "." paper, "?" unknown. Each stroke, and each
// cell set by the keyboard, sends an event "drawn" with all cells as its detail.
if (!customElements.get("pattern-drawing")) {
  customElements.define(
    "pattern-drawing",
    class extends HTMLElement {
      connectedCallback() {
        if (this.shadowRoot) return;
        const root = this.attachShadow({ mode: "open" });
        this.rows = Number(this.getAttribute("rows"));
        this.columns = Number(this.getAttribute("columns"));
        root.innerHTML = `<style>
          :host { display: block; font: 15px/1.4 system-ui, sans-serif }
          .grid { display: grid; grid-template-columns: repeat(${this.columns}, 1fr);
            max-width: 230px; touch-action: none; user-select: none; cursor: crosshair;
            border: 1px solid light-dark(#8a939e, #6b7480) }
          .grid:focus-visible { outline: 2px solid light-dark(#0b57a8, #8ec5ff); outline-offset: 2px }
          i { aspect-ratio: 1; border: 1px solid light-dark(#c5ccd4, #3a424d); background: #808080 }
          i.ink { background: #fff } i.paper { background: #000 }
          .focus i.at { outline: 2px solid #e8590c; outline-offset: -2px; z-index: 1 }
          p { margin: .3rem 0; font-size: .87rem; color: light-dark(#4a525c, #b3bac3) }
        </style>
        <div class="grid" tabindex="0" role="application"
          aria-label="Drawing. Arrow keys move, space draws or erases."></div>
        <p>Draw with the pointer; start on ink to erase. By keyboard: arrow keys, space.
          White: ink. Black: paper. Gray: unknown.</p>`;
        this.grid = root.querySelector(".grid");
        this.nodes = Array.from({ length: this.rows * this.columns }, () =>
          this.grid.appendChild(document.createElement("i")),
        );
        this.at = 0;
        this.state = "?".repeat(this.nodes.length);
        this.paint();
        this.grid.addEventListener("pointerdown", (event) => this.begin(event));
        this.grid.addEventListener("pointermove", (event) => this.draw(event));
        this.grid.addEventListener("pointerup", () => this.end());
        this.grid.addEventListener("pointercancel", () => this.end());
        this.grid.addEventListener("keydown", (event) => this.key(event));
        this.grid.addEventListener("focus", () => this.grid.classList.add("focus"));
        this.grid.addEventListener("blur", () => this.grid.classList.remove("focus"));
      }
      set cells(value) {
        if (typeof value === "string" && value.length === this.nodes?.length) {
          this.state = value;
          this.paint();
        }
      }
      paint() {
        this.nodes.forEach((node, n) => {
          const name = { "#": "ink", ".": "paper" }[this.state[n]] ?? "";
          node.className = n === this.at ? `${name} at` : name;
        });
      }
      put(n) {
        this.state = this.state.slice(0, n) + this.brush + this.state.slice(n + 1);
        this.at = n;
        this.paint();
      }
      cell(event) {
        const box = this.grid.getBoundingClientRect();
        const column = Math.floor(
          ((event.clientX - box.left) / box.width) * this.columns,
        );
        const row = Math.floor(((event.clientY - box.top) / box.height) * this.rows);
        const inside =
          row >= 0 && row < this.rows && column >= 0 && column < this.columns;
        return inside ? row * this.columns + column : null;
      }
      begin(event) {
        const n = this.cell(event);
        if (n === null) return;
        this.grid.setPointerCapture(event.pointerId);
        this.brush = this.state[n] === "#" ? "." : "#";
        this.drawing = true;
        this.put(n);
      }
      draw(event) {
        const n = this.drawing ? this.cell(event) : null;
        if (n !== null) this.put(n);
      }
      end() {
        if (this.drawing) this.send();
        this.drawing = false;
      }
      key(event) {
        const move = {
          ArrowLeft: -1,
          ArrowRight: 1,
          ArrowUp: -this.columns,
          ArrowDown: this.columns,
        }[event.key];
        if (move) {
          const next = this.at + move;
          if (next >= 0 && next < this.nodes.length) this.at = next;
          this.paint();
        } else if (event.key === " ") {
          this.brush = this.state[this.at] === "#" ? "." : "#";
          this.put(this.at);
          this.send();
        } else return;
        event.preventDefault();
      }
      send() {
        const options = { detail: this.state, bubbles: true, composed: true };
        this.dispatchEvent(new CustomEvent("drawn", options));
      }
    },
  );
}
