"""The style sheet and the script of the page."""

STYLE_SHEET = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2128; --soft: #5c6672; --line: #dfe3e8; --card: #f6f7f9;
  --accent: #2f6fb0; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --ink: #e4e7eb; --soft: #9aa4b0; --line: #2d333b; --card: #1b1f25; --accent: #6cb0ee; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
header, main, footer { max-width: 1080px; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.25rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line); }
p { margin: .4rem 0; color: var(--soft); max-width: 75ch; }
code { font: .92em ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; background: var(--card);
  padding: .1em .35em; border-radius: 4px; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
nav { margin-top: 1.1rem; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; font-size: .92rem; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .8rem; margin: .8rem 0; }
dl div { background: var(--card); border-radius: 8px; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .8rem; } dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
figure { margin: 1rem 0 1.4rem; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .35rem; max-width: 85ch; }
.tabs { display: flex; flex-wrap: wrap; gap: .35rem; margin: .8rem 0 .2rem; }
button { font: inherit; color: inherit; background: none; border: 0; cursor: pointer; }
.tabs button { font-size: .88rem; padding: .25rem .7rem; border: 1px solid var(--line); border-radius: 99px; }
.tabs button[aria-selected="true"] { background: var(--accent); border-color: var(--accent); color: var(--page); }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .65rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--page); }
thead th { font-weight: 600; color: var(--soft); white-space: normal; } thead th[colspan] { text-align: center; }
tbody th { font-weight: 500; }
td small { display: block; color: var(--soft); font-size: .76rem; }
td.strong { font-weight: 700; } td b { color: var(--accent); }
th button { padding: 0; font-weight: 600; }
th[aria-sort="ascending"] button::after { content: " \\2191"; }
th[aria-sort="descending"] button::after { content: " \\2193"; }
.pairs th { font-weight: 400; color: var(--soft); } .pairs td.text { text-align: left; white-space: pre-wrap; }
details { border-top: 1px solid var(--line); margin-top: 2.4rem; }
details > summary { cursor: pointer; padding: .7rem 0; font-weight: 600; }
details.run { margin-top: 1rem; } details.run > summary { font-size: 1.25rem; }
details details { border: 0; }
footer { padding-bottom: 3rem; }
[hidden] { display: none !important; }
@media print { [hidden] { display: block !important; } .tabs, nav { display: none; } figure { break-inside: avoid; } }
"""

# Without the script the page shows all pictures one below the other and an unsorted table.
SCRIPT = """
"use strict";
for (const group of document.querySelectorAll("[data-tabs]")) {
  const panels = [...group.querySelectorAll(":scope > figure")];
  if (panels.length < 2) continue;
  const bar = document.createElement("div");
  bar.className = "tabs";
  bar.setAttribute("role", "tablist");
  const buttons = panels.map((panel) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("role", "tab");
    button.textContent = panel.dataset.label;
    panel.setAttribute("role", "tabpanel");
    bar.append(button);
    return button;
  });
  const choose = (chosen) => panels.forEach((panel, number) => {
    panel.hidden = number !== chosen;
    buttons[number].setAttribute("aria-selected", String(number === chosen));
    buttons[number].tabIndex = number === chosen ? 0 : -1;
  });
  buttons.forEach((button, number) => {
    button.addEventListener("click", () => choose(number));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (number + step + panels.length) % panels.length;
      choose(next);
      buttons[next].focus();
    });
  });
  group.insertBefore(bar, panels[0]);
  choose(0);
}
const unfold = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", unfold);
unfold();
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const names = new Intl.Collator("en", { numeric: true }); // 32 x 32 before 128 x 128
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[column];
      return column === 0 ? cell.textContent : "value" in cell.dataset ? Number(cell.dataset.value) : Infinity;
    };
    const values = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const order = (a, b) => (column === 0 ? names.compare : values)(key(a), key(b));
    body.append(...[...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b))));
  }));
}
"""
