const SVG = ["svg", "g", "path", "circle", "rect", "text", "title", "defs", "marker"];

/** An element with attributes and content; text is never read as markup. */
export function element(tag, attributes = {}, ...content) {
  const space = SVG.includes(tag) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...content.filter((one) => one !== null));
  return made;
}
