"use strict";

// Sorting: each heading becomes a button; the first click sorts upwards, the next one turns it round.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.v ?? "";
      const rows = [...body.rows].sort((a, b) => compare(key(a), key(b), up));
      body.append(...rows);
    });
  });
}

// Numbers by size, the rest by letters; what is unknown stays at the end whichever way.
function compare(a, b, up) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const numeric = !isNaN(a) && !isNaN(b);
  const order = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
  return up ? order : -order;
}

// Charts: the drawn image is already there; with scripts it becomes one that answers the pointer and fits the page.
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const NARROW = 560; // pixels, below which names are shortened and the numbers beside the intervals go

function fitted(spec, width) {
  spec.config.background = "transparent";
  if (width >= NARROW) return spec;
  spec.layer = spec.layer.filter((layer) => layer.name !== "numbers");
  const shorten = (node) => {
    if (node.mark?.type === "text" && node.mark.limit) node.mark.limit = 84;
    if (node.encoding?.y?.axis?.labelLimit) node.encoding.y.axis.labelLimit = 100;
    if (node.encoding?.x?.axis?.tickCount) node.encoding.x.axis.tickCount = 4;
    (node.layer ?? []).forEach(shorten);
  };
  shorten(spec);
  return spec;
}

async function draw(figure) {
  const chart = figure.querySelector(".chart"), holder = document.createElement("div");
  const source = document.getElementById(figure.dataset.spec).textContent;
  const options = { actions: false, renderer: "svg", tooltip: { theme: dark ? "dark" : "light" } };
  const room = chart.clientWidth;
  chart.append(holder);
  const { view } = await vegaEmbed(holder, fitted(JSON.parse(source), room), options);
  chart.replaceChildren(holder);
  const fit = () => {
    const around = holder.querySelector("svg").viewBox.baseVal.width - view.width();
    return view.width(Math.max(120, Math.floor(chart.clientWidth - around))).runAsync();
  };
  await fit();
  let known = room;
  new ResizeObserver(() => {
    if (chart.clientWidth === known) return;
    const crossed = (chart.clientWidth < NARROW) !== (known < NARROW);
    known = chart.clientWidth;
    requestAnimationFrame(() => (crossed ? view.finalize() || draw(figure) : fit()));
  }).observe(chart);
}

if (window.vegaEmbed) for (const figure of document.querySelectorAll("figure[data-spec]")) draw(figure).catch(console.error);
