// The page sends a question with the values of the controls and shows the answer.
"use strict";
import { bytes, css, digits, drawAttention, drawBar, drawCuts, drawLines, drawMark, drawPixels, floats } from "./draw.js";

const $ = (id) => document.getElementById(id);
const key = new URLSearchParams(location.search).get("key");
const fieldOf = (name) => name.replace(/\[-?\d+\]$/, "");
const PANELS = ["given", "truth", "prediction", "error"];

let about; // the model and its data
let answer = null; // the last one
let mode = "raise"; // the tool of the pointer on the input: raise, lower or look (attention)
let place = null; // of the subdomain whose attention is shown, as fractions of the domain
let cursor = null; // the keyboard's position on the input
let dragging = null; // the current movement of the brush
let playing = null;
let numbers = {}; // changed numbers by name
let strokes = [];
let starts = []; // the number of strokes before each movement, for `undo`
const panels = {};

const request = async (path, content) => {
  const headers = { "X-Mondrian-Key": key };
  const options = content === undefined ? { headers } : {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(content),
  };
  const reply = await fetch(path, options), result = await reply.json();
  if (!reply.ok) throw new Error(result.error);
  return result;
};

// One request at a time; if several questions come up meanwhile, only the last is sent.
let running = false, wanted = false;
const refresh = async () => {
  showButtons();
  wanted = true;
  if (running) return;
  running = true;
  document.body.setAttribute("aria-busy", "true");
  while (wanted) {
    wanted = false;
    try {
      const asked = question();
      answer = decoded(await request("/ask", asked));
      $("message").textContent = "";
      show();
      if (place) {
        const maps = await request("/attention", { question: asked, at: place });
        if (place) showAttention(maps); // unless the tool has changed meanwhile
      }
    } catch (error) {
      $("message").textContent = error.message;
    }
  }
  running = false;
  document.body.removeAttribute("aria-busy");
};

const decoded = (content) => {
  for (const kind of ["given", "predicted", "truth"])
    for (const name of Object.keys(content[kind])) content[kind][name] = floats(content[kind][name]);
  return content;
};

const question = () => ({
  points: $("points").value.trim().split(/[x×,\s]+/).map((text) => {
    if (!/^\d+$/.test(text)) throw new Error(`${$("points").value} is not a number of points for each axis; needed for example 48x48`);
    return Number(text);
  }),
  simulation: Number($("simulation").value),
  step: Number($("step").value),
  numbers: Object.entries(numbers),
  strokes,
  applications: Number($("applications").value),
  solve: !about.unsolved && $("solve").checked && !dragging, // no solver while painting: the model alone is faster
});

const dim = () => about.extent.length;
const chosen = (holder) => [...$(holder).children].find((button) => button.getAttribute("aria-pressed") === "true")?.dataset.field;
const framesOf = (channels, field) => Object.keys(channels).filter((name) => fieldOf(name) === field);
const shownSlice = () => (dim() === 3 ? Math.min(Number($("slice").value), answer.points[2] - 1) : 0);

const makePanel = (name, title) => {
  const figure = document.createElement("figure");
  figure.innerHTML = '<b></b><small></small><div class="field" role="img"><canvas class="pixels"></canvas><canvas></canvas>' +
    '<div class="none" hidden></div></div>' +
    '<div class="bar"><span></span><canvas width="256" height="1"></canvas><span></span></div>';
  figure.querySelector("b").textContent = title;
  $("panels").append(figure);
  const [pixels, over, bar] = figure.querySelectorAll("canvas");
  const panel = {
    figure, pixels, over, bar, title: figure.querySelector("b"), small: figure.querySelector("small"),
    box: figure.querySelector(".field"), none: figure.querySelector(".none"), ends: figure.querySelectorAll(".bar span"),
  };
  panel.box.style.aspectRatio = dim() === 1 ? "4 / 1" : `${about.extent[0]} / ${about.extent[1]}`;
  panel.box.addEventListener("pointermove", (event) => readOut(panel, event));
  panel.box.addEventListener("pointerleave", () => { panel.small.textContent = panel.note || ""; });
  panels[name] = panel;
};

const draw = (panel, title, values, limits, { lines = null, note = "", missing = "" } = {}) => {
  Object.assign(panel, { values, note });
  panel.title.textContent = title;
  panel.small.textContent = note;
  panel.box.setAttribute("aria-label", values === null ? `${title}: ${missing}` : `${title} ${note}`);
  panel.none.hidden = values !== null;
  panel.none.textContent = missing;
  panel.figure.querySelector(".bar").style.visibility = values === null ? "hidden" : "visible";
  const scale = devicePixelRatio || 1;
  panel.over.width = panel.box.clientWidth * scale;
  panel.over.height = panel.box.clientHeight * scale;
  panel.pixels.hidden = values === null || dim() === 1;
  if (values === null) return;
  panel.ends[0].textContent = digits(limits.low);
  panel.ends[1].textContent = `${limits.beyond ? "≥ " : ""}${digits(limits.high)}`;
  panel.bar.hidden = dim() === 1;
  const colours = about.colours[limits.colours];
  drawBar(panel.bar, colours);
  if (dim() === 1) drawLines(panel.over, lines || [[values, css("--accent")]], limits);
  else drawPixels(panel.pixels, values, answer.points, shownSlice(), limits, colours);
  drawCuts(panel.over, about.cuts);
  if (panel === panels.given && place) drawMark(panel.over, place, 7 * scale);
  if (panel === panels.given && cursor) drawMark(panel.over, cursor, 3 * scale);
};

const show = () => {
  if (!answer) return;
  const field = chosen("outputs"), from = chosen("inputs"), names = framesOf(answer.predicted, field);
  $("frame").max = names.length - 1;
  const frame = Math.min(Number($("frame").value), names.length - 1), name = names[frame];
  $("frames").hidden = $("play").hidden = names.length < 2;
  if (names.length < 2 && playing) stop();
  if (dim() === 3) {
    $("slice").max = answer.points[2] - 1;
    $("slice-value").textContent = `${shownSlice() + 1} of ${answer.points[2]}`;
  }
  const time = (channel) => (channel in answer.times ? `, t = ${digits(answer.times[channel])}` : "");
  if (from) { // the frame that strokes are added to: the first one if the equation is solved
    const given = framesOf(answer.given, from).at(about.unsolved ? -1 : 0);
    draw(panels.given, `input ${from}${time(given)}`, answer.given[given], answer.limits.given[from]);
  }
  const predicted = answer.predicted[name], truth = answer.truth[name] || null, ends = answer.limits.predicted[field];
  const reason = answer.unsolved || about.unsolved;
  const missing = reason ? `No truth: ${reason}.` : "No truth is stored for this input.";
  draw(panels.truth, `truth ${field}${time(name)}`, truth, ends, { missing });
  const lines = truth && [[truth, css("--soft")], [predicted, css("--accent"), true]];
  draw(panels.prediction, `prediction ${field}${time(name)}`, predicted, ends, { lines, note: `${digits(1000 * answer.seconds)} ms` });
  const wrong = truth && predicted.map((value, at) => Math.abs(value - truth[at])), error = answer.errors[name];
  const note = error ? `mean ${digits(error.mae)}, relative L2 ${digits(error.relative_l2)}` : "";
  draw(panels.error, "absolute error", wrong, answer.limits.error[field], { note });
  $("frame-value").textContent = `${frame + 1} of ${names.length}${time(name)}`;
  for (const [number, value] of Object.entries(answer.numbers)) {
    const slider = $(`number-${number}`);
    if (!(number in numbers)) slider.value = slider.dataset.log ? Math.log10(value) : value;
    $(`number-${number}-value`).textContent = digits(value);
  }
  for (const button of $("resolutions").children)
    button.setAttribute("aria-pressed", String(button.textContent === answer.points.join(" × ")));
  $("state").textContent = `${answer.points.join(" × ")} points`;
};

const showButtons = () => {
  $("undo").disabled = strokes.length === 0;
  $("reset").disabled = strokes.length === 0 && Object.keys(numbers).length === 0;
};

const showAttention = ({ blocks }) => {
  $("attention").hidden = blocks.length === 0;
  $("blocks").replaceChildren(...blocks.map((block) => {
    const section = document.createElement("div"), heads = document.createElement("div");
    const title = document.createElement("h2");
    title.textContent = `${block.name}${block.moved ? ", staggered by half a subdomain" : ""}`;
    heads.className = "heads";
    block.weights.forEach((text, head) => {
      const figure = document.createElement("figure"), canvas = document.createElement("canvas");
      const caption = document.createElement("figcaption");
      canvas.width = 240;
      canvas.height = dim() === 1 ? 60 : Math.round((240 * about.extent[1]) / about.extent[0]);
      const most = drawAttention(canvas, block.boxes, about.periodic, floats(text), block.subdomain, about.colours.magma);
      caption.textContent = `head ${head + 1}, maximum ${digits(most)}`;
      figure.append(canvas, caption);
      heads.append(figure);
    });
    section.append(title, heads);
    return section;
  }));
};

// The position of the pointer as fractions of the domain; the slice gives the third axis.
const partOf = (panel, event) => {
  const box = panel.box.getBoundingClientRect(), inside = (value) => Math.min(Math.max(value, 0), 1 - 1e-9);
  const position = [inside((event.clientX - box.left) / box.width)];
  if (dim() > 1) position.push(inside(1 - (event.clientY - box.top) / box.height));
  return withSlice(position);
};
const withSlice = (part) => (dim() > 2 ? [...part.slice(0, 2), (shownSlice() + 0.5) / answer.points[2]] : part);

const readOut = (panel, event) => {
  if (!panel.values) return;
  const part = partOf(panel, event);
  const index = part.reduce((sum, value, axis) => sum * answer.points[axis] + Math.floor(value * answer.points[axis]), 0);
  const where = part.map((value, axis) => `${"xyz"[axis]} = ${digits(about.origin[axis] + value * about.extent[axis])}`);
  panel.small.textContent = `${where.join(", ")}: ${digits(panel.values[index])}`;
};

// The brush adds bumps along its path, one and a half widths apart; widths are fractions of the shortest side.
const paint = (at) => {
  const shortest = Math.min(...about.extent), apart = 1.5 * Number($("width").value), from = dragging.last || at;
  const length = Math.hypot(...at.map((value, axis) => ((value - from[axis]) * about.extent[axis]) / shortest));
  const steps = dragging.last ? Math.floor(length / apart) : 1;
  if (!steps) return;
  const amount = Number($("strength").value) * about.fields[chosen("inputs")] * (mode === "lower" ? -1 : 1);
  for (let step = 1; step <= steps; step++) {
    const part = length ? (step * apart) / length : 1;
    const next = at.map((value, axis) => from[axis] + part * (value - from[axis]));
    strokes.push({ field: chosen("inputs"), at: next, width: Number($("width").value), amount });
    dragging.last = next;
  }
  refresh();
};

const lift = () => {
  if (!dragging) return;
  if (strokes.length > dragging.before) starts.push(dragging.before);
  dragging = null;
  refresh();
};

const act = (at) => {
  if (mode === "look") {
    place = at;
    refresh();
    return;
  }
  dragging = { last: null, before: strokes.length };
  paint(at);
};

const watchInput = () => {
  const { box } = panels.given;
  box.tabIndex = 0;
  box.addEventListener("pointerdown", (event) => {
    if (!answer || event.button !== 0) return;
    if (mode !== "look") box.setPointerCapture(event.pointerId);
    act(partOf(panels.given, event));
  });
  box.addEventListener("pointermove", (event) => { if (dragging) paint(partOf(panels.given, event)); });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) box.addEventListener(end, lift);
  box.addEventListener("blur", () => { cursor = null; show(); });
  box.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] }[event.key];
    if (!answer || !(event.key === "Enter" || (way && way[0] < dim()))) return;
    event.preventDefault();
    cursor = withSlice(cursor || about.extent.map(() => 0.5));
    if (way) cursor[way[0]] = Math.min(Math.max(cursor[way[0]] + 0.02 * way[1], 0), 1 - 1e-9);
    show();
    if (!way) { act(cursor.slice()); lift(); }
  });
};

const choose = (name) => {
  mode = name;
  for (const each of ["raise", "lower", "look"]) $(each).setAttribute("aria-pressed", String(each === name));
  panels.given.box.className = `field ${name === "look" ? "look" : "paint"}`;
  $("brush").hidden = name === "look";
  if (name !== "look") {
    place = null;
    $("attention").hidden = true;
    show();
  }
};

const stop = () => {
  clearInterval(playing);
  playing = null;
  $("play").setAttribute("aria-pressed", "false");
};

const play = () => {
  if (playing) { stop(); return; }
  $("play").setAttribute("aria-pressed", "true");
  playing = setInterval(() => {
    $("frame").value = (Number($("frame").value) + 1) % (Number($("frame").max) + 1);
    show();
  }, 250);
};

const addButtons = (holder, texts, press) => $(holder).append(...texts.map((text, number) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", () => press(number, button));
  return button;
}));

// A choice among several fields, first the first one; hidden if there is only one.
const addChoice = (group, holder, fields) => {
  addButtons(holder, fields, (_, pressed) => {
    for (const button of $(holder).children) button.setAttribute("aria-pressed", String(button === pressed));
    show();
  });
  [...$(holder).children].forEach((button, number) => {
    button.dataset.field = fields[number];
    button.setAttribute("aria-pressed", String(number === 0));
  });
  $(group).hidden = fields.length < 2;
};

const addSlider = (id, text, moved) => {
  const write = () => { $(`${id}-value`).textContent = text(Number($(id).value)); };
  $(id).addEventListener("input", () => { write(); moved(); });
  write();
};

const addNumber = ({ name, low, high, log }) => {
  const label = document.createElement("label"), range = document.createElement("input");
  const shown = document.createElement("output"), [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  Object.assign(range, { type: "range", id: `number-${name}`, min: from, max: to, step: (to - from) / 200 || "any" });
  if (log) range.dataset.log = "yes";
  shown.id = `number-${name}-value`;
  label.append(`${name} `, shown, range);
  $("numbers").append(label);
  range.addEventListener("input", () => {
    numbers[name] = log ? 10 ** Number(range.value) : Number(range.value);
    refresh();
  });
};

const addSample = () => {
  const bound = () => {
    const last = about.windows[Number($("simulation").value)] - 1;
    $("step").max = last;
    $("start").hidden = last === 0;
    $("step-value").textContent = $("step").value;
  };
  $("simulation").max = about.windows.length - 1;
  addSlider("simulation", (value) => `${value + 1} of ${about.windows.length}`, () => { bound(); refresh(); });
  addSlider("step", String, refresh);
  bound();
};

const addPoints = () => {
  addButtons("resolutions", about.resolutions.map((points) => points.join(" × ")), (number) => {
    $("points").value = about.resolutions[number].join("x");
    refresh();
  });
  $("points").value = (about.trained.length ? about.trained : about.resolutions[0]).join("x");
  $("points").addEventListener("change", refresh);
  $("trained").textContent = about.trained.length ? `Trained at ${about.trained.join(" × ")}.` : "";
  $("slices").hidden = dim() !== 3;
  addSlider("slice", String, show);
};

const addTime = () => {
  $("time").hidden = !about.rolls_out && about.steps_out < 2;
  $("rollout").hidden = !about.rolls_out;
  addSlider("applications", String, refresh);
  $("frame").addEventListener("input", show);
  $("play").addEventListener("click", play);
};

const addBrush = () => {
  addSlider("width", (value) => `${Math.round(100 * value)} %`, () => {});
  addSlider("strength", (value) => `${value} σ`, () => {});
  for (const name of ["raise", "lower", "look"]) $(name).addEventListener("click", () => choose(name));
  $("undo").addEventListener("click", () => { strokes.length = starts.pop() ?? 0; refresh(); });
  $("reset").addEventListener("click", () => { strokes = []; numbers = {}; starts = []; refresh(); });
  $("look").hidden = about.cuts.length === 0;
  $("solving").hidden = about.unsolved !== "";
  $("solve").addEventListener("change", refresh);
};

const begin = async () => {
  about = await request("/about");
  for (const name of Object.keys(about.colours)) about.colours[name] = bytes(about.colours[name]);
  document.title = $("name").textContent = about.name || about.model;
  const size = `${about.parameters.toLocaleString("en")} parameters`;
  $("facts").textContent = `${about.model}, ${size}, ${about.windows.length} simulations;`;
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  addSample();
  addPoints();
  $("numbers").hidden = about.numbers.length === 0;
  about.numbers.forEach(addNumber);
  addTime();
  addChoice("predicted-field", "outputs", about.outputs);
  addChoice("given-field", "inputs", Object.keys(about.fields));
  addBrush();
  $("panels").classList.toggle("lines", dim() === 1);
  for (const name of PANELS) makePanel(name, name);
  watchInput();
  choose("raise");
  const nothing = Object.keys(about.fields).length === 0; // the input is numbers only
  panels.given.figure.hidden = $("acting").hidden = nothing;
  addEventListener("resize", show);
  await refresh();
};

begin().catch((error) => { $("message").textContent = error.message; });
