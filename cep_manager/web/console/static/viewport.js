// Visible part of a picture: moved by dragging and arrow keys, zoomed by buttons, + and −, or the wheel with
// Ctrl; 0 shows all of it. At first all of it is seen, or its beginning where that could not be read. What is seen stays when
// the picture is drawn again in the same size.

const STEP = 1.25;
const LARGEST = 4;
const SMALLEST = 0.05;
const READABLE = 0.5; // the smallest scale, unless the user asks for the whole picture
const LOWEST = 180; // the area's height, in pixels and as a share of the window
const HIGHEST = 0.65;
const SLIP = 4; // largest movement of the pointer that still counts as a click

export class Viewport {
  #area;
  #svg = null;
  #whole = { x: 0, y: 0, width: 1, height: 1 };
  #seen = null; // {x, y, scale}; null: not chosen by the user
  #all = false; // the user asked for the whole picture
  #dragged = false;

  constructor(area) {
    this.#area = area;
    area.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    area.addEventListener("keydown", (event) => this.#key(event));
    area.addEventListener("pointerdown", (event) => this.#drag(event));
    area.addEventListener("click", (event) => this.#afterDrag(event), { capture: true });
    area.addEventListener("dragstart", (event) => event.preventDefault());
    let width = area.clientWidth;
    new ResizeObserver(() => {
      if (area.clientWidth !== width) {
        width = area.clientWidth;
        this.#resize();
      }
      this.#apply();
    }).observe(area);
  }

  /** `svg` is what is looked at; `whole` is all of it, {x, y, width, height}. */
  watch(svg, whole) {
    const same = JSON.stringify(whole) === JSON.stringify(this.#whole);
    this.#svg = svg;
    this.#whole = whole;
    this.#seen = same ? this.#seen : null;
    this.#all &&= same;
    this.#resize();
    this.#apply();
  }

  /** The area is as high as the picture is when all of its width is seen, within bounds. */
  #resize() {
    const scale = Math.max(READABLE, Math.min(1, this.#area.clientWidth / this.#whole.width));
    const height = Math.min(Math.max(LOWEST, this.#whole.height * scale), innerHeight * HIGHEST);
    this.#area.style.height = `${Math.round(height)}px`;
  }

  /** Everything is seen, never larger than it was drawn. */
  fit() {
    this.#seen = null;
    this.#all = true;
    this.#apply();
  }

  /** Larger (a factor over 1) or smaller around a place of the area, its middle without one. */
  zoom(factor, at = { x: this.#area.clientWidth / 2, y: this.#area.clientHeight / 2 }) {
    const now = this.#now();
    const scale = Math.min(LARGEST, Math.max(SMALLEST, now.scale * factor));
    this.#seen = { x: now.x + at.x / now.scale - at.x / scale, y: now.y + at.y / now.scale - at.y / scale, scale };
    this.#apply();
  }

  larger() {
    this.zoom(STEP);
  }

  smaller() {
    this.zoom(1 / STEP);
  }

  #now() {
    if (this.#seen) {
      return this.#seen;
    }
    const [width, height] = [this.#area.clientWidth, this.#area.clientHeight];
    const fitting = Math.min(1, width / this.#whole.width, height / this.#whole.height);
    const scale = this.#all ? fitting : Math.max(READABLE, fitting);
    const before = (room, size) => Math.max(0, (room / scale - size) / 2); // a picture that fits is centred
    return { x: this.#whole.x - before(width, this.#whole.width), y: this.#whole.y - before(height, this.#whole.height), scale };
  }

  #apply() {
    if (this.#svg && this.#area.clientWidth && this.#area.clientHeight) {
      const { x, y, scale } = this.#now();
      this.#svg.setAttribute("viewBox", `${x} ${y} ${this.#area.clientWidth / scale} ${this.#area.clientHeight / scale}`);
    }
  }

  #move(x, y) {
    const now = this.#now();
    this.#seen = { ...now, x: now.x + x / now.scale, y: now.y + y / now.scale };
    this.#apply();
  }

  #wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const box = this.#area.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - box.left, y: event.clientY - box.top });
    }
  }

  #key(event) {
    const moves = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] };
    const deeds = { "+": () => this.larger(), "=": () => this.larger(), "-": () => this.smaller(), 0: () => this.fit() };
    const deed = moves[event.key] ? () => this.#move(...moves[event.key]) : deeds[event.key];
    if (deed && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      deed();
    }
  }

  #drag(event) {
    if (event.button !== 0) {
      return;
    }
    const began = { x: event.clientX, y: event.clientY };
    let last = began;
    this.#dragged = false;
    const move = (moved) => {
      this.#dragged ||= Math.hypot(moved.clientX - began.x, moved.clientY - began.y) > SLIP;
      if (this.#dragged) {
        this.#move(last.x - moved.clientX, last.y - moved.clientY);
        last = { x: moved.clientX, y: moved.clientY };
      }
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }

  /** A drag that ends on a node does not choose it. */
  #afterDrag(event) {
    if (this.#dragged) {
      event.preventDefault();
      event.stopPropagation();
      this.#dragged = false;
    }
  }
}
