// A graph as a file of its own: the picture with its colours written into it.

const LOOK = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order", "visibility", "display"];

/** The text of an SVG file that looks as `svg` does now; all of it is seen, {x, y, width, height}. */
export function svgText(svg, whole) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `${whole.x} ${whole.y} ${whole.width} ${whole.height}`);
  copy.setAttribute("width", whole.width);
  copy.setAttribute("height", whole.height);
  const from = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, at) => {
    const seen = getComputedStyle(from[at]);
    for (const name of LOOK) {
      element.setAttribute(name, seen.getPropertyValue(name));
    }
    element.removeAttribute("class");
    element.removeAttribute("tabindex");
    element.removeAttribute("href");
  });
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ ...whole, fill: getComputedStyle(svg.closest(".card") ?? document.body).backgroundColor })) {
    ground.setAttribute(name, value);
  }
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** The browser offers `text` as a file called `name`. */
export function offer(text, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
