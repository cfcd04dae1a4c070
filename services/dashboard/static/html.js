/** Makes an element. on… are listeners, true and false switch, the rest are attributes; text is never read as HTML. */
export function h(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props)) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else if (v != null && v !== false) e.setAttribute(k, v);
  }
  e.append(...children.flat().filter((c) => c != null && c !== false));
  return e;
}

/** Writes text into e only where it is another: screen readers and selections are left alone. */
export function put(e, text) {
  if (e.textContent !== String(text)) e.textContent = text;
}
