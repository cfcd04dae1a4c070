// All pictures of one kind on one sheet, laid out and written down by the browser that took them.

/** Writes a JPEG to path: shots are [{ name, png }], each shown width pixels wide, in so many columns. */
export async function sheet(browser, path, shots, { width, columns }) {
  const context = await browser.newContext({ viewport: { width: columns * (width + 12) + 12, height: 800 } });
  const page = await context.newPage();
  const cells = shots.map(({ name, png }) => `<figure><figcaption>${name}</figcaption><img src="data:image/png;base64,${png.toString("base64")}"></figure>`);
  await page.setContent(`<!doctype html><style>
    body{margin:12px;display:grid;grid-template-columns:repeat(${columns},${width}px);gap:12px;background:#8a929b;font:11px/1.3 sans-serif}
    figure{margin:0}img{display:block;width:100%}figcaption{color:#fff;white-space:nowrap;overflow:hidden}</style>${cells.join("")}`);
  await page.evaluate(() => Promise.all([...document.images].map((i) => i.decode())));
  await page.screenshot({ path, type: "jpeg", quality: 55, fullPage: true });
  await context.close();
}
