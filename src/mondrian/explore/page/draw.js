// Fields on canvases. The first axis of a field points to the right, the second one up.
"use strict";

export const digits = (value) =>
  value === null || value === undefined ? "–" : Number(Number(value).toPrecision(3)).toString();

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const bytes = (text) => {
  const letters = atob(text), codes = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n++) codes[n] = letters.charCodeAt(n);
  return codes;
};

export const floats = (text) => new Float32Array(bytes(text).buffer);

export const largest = (values) => values.reduce((most, value) => (value > most ? value : most), 0);

// The values of a plane field, or of one slice of a field in space, as pixels.
export const drawPixels = (canvas, values, [nx, ny, nz = 1], slice, limits, colours) => {
  canvas.width = nx;
  canvas.height = ny;
  const pen = canvas.getContext("2d"), image = pen.createImageData(nx, ny), range = limits.high - limits.low;
  for (let i = 0; i < nx; i++) {
    for (let j = 0; j < ny; j++) {
      const value = values[(i * ny + j) * nz + slice], at = 4 * ((ny - 1 - j) * nx + i);
      const level = Math.min(255, Math.max(0, Math.round((255 * (value - limits.low)) / range)));
      for (let c = 0; c < 3; c++) image.data[at + c] = Number.isFinite(value) ? colours[3 * level + c] : 128;
      image.data[at + 3] = 255;
    }
  }
  pen.putImageData(image, 0, 0);
};

// Fields on a line: each of `lines` is its values, a colour, and whether it is dashed.
export const drawLines = (canvas, lines, limits) => {
  const pen = canvas.getContext("2d"), { width, height } = canvas;
  const margin = 0.06 * height, range = limits.high - limits.low || 1;
  for (const [values, colour, dashed] of lines) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.6 * (devicePixelRatio || 1);
    pen.setLineDash(dashed ? [6, 5] : []);
    pen.beginPath();
    values.forEach((value, place) => {
      const x = ((place + 0.5) / values.length) * width;
      const y = height - margin - ((value - limits.low) / range) * (height - 2 * margin);
      if (Number.isFinite(y)) pen.lineTo(x, y);
    });
    pen.stroke();
  }
  pen.setLineDash([]);
};

export const drawBar = (canvas, colours) => {
  const pen = canvas.getContext("2d"), image = pen.createImageData(256, 1);
  for (let level = 0; level < 256; level++) {
    for (let c = 0; c < 3; c++) image.data[4 * level + c] = colours[3 * level + c];
    image.data[4 * level + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
};

// Thin lines where a subdomain ends and the next begins, the fainter the more there are.
export const drawCuts = (canvas, cuts) => {
  const pen = canvas.getContext("2d"), { width, height } = canvas;
  pen.strokeStyle = css("--ink");
  pen.globalAlpha = Math.min(0.25, 2 / Math.max(...cuts, 1));
  pen.lineWidth = 1;
  pen.beginPath();
  cuts.slice(0, 2).forEach((count, axis) => {
    for (let cut = 1; cut < count; cut++) {
      const part = cut / count;
      pen.moveTo(axis === 0 ? part * width : 0, axis === 0 ? 0 : part * height);
      pen.lineTo(axis === 0 ? part * width : width, axis === 0 ? height : part * height);
    }
  });
  pen.stroke();
  pen.globalAlpha = 1;
};

export const drawMark = (canvas, place, radius) => {
  const pen = canvas.getContext("2d");
  pen.strokeStyle = css("--ink");
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(place[0] * canvas.width, (place.length === 1 ? 0.5 : 1 - place[1]) * canvas.height, radius, 0, 7);
  pen.stroke();
};

// How much a subdomain takes up from each other one: `boxes` are both ends of each along each axis, in parts of the
// domain. Of three axes the third is summed over.
export const drawAttention = (canvas, boxes, rings, weights, own, colours) => {
  const pen = canvas.getContext("2d"), sums = new Map();
  const placeOf = (box) => JSON.stringify(box.slice(0, 2));
  boxes.forEach((box, number) => sums.set(placeOf(box), (sums.get(placeOf(box)) || 0) + weights[number]));
  const most = largest([...sums.values()]) || 1;
  for (const [place, sum] of sums) {
    const level = Math.round((255 * sum) / most);
    pen.fillStyle = `rgb(${colours[3 * level]}, ${colours[3 * level + 1]}, ${colours[3 * level + 2]})`;
    for (const area of areasOf(canvas, JSON.parse(place), rings)) pen.fillRect(...area);
  }
  pen.strokeStyle = "#6cf0c2";
  pen.lineWidth = 2;
  for (const area of areasOf(canvas, boxes[own], rings)) pen.strokeRect(...area);
  return most;
};

// Where a box lies on a canvas: what reaches beyond the end of a ring comes in again at its start, the rest is cut off.
const areasOf = ({ width, height }, box, rings) => {
  const spans = [0, 1].map((axis) => {
    if (axis >= box.length) return [[0, 1]];
    const [low, high] = box[axis], codes = [[Math.max(low, 0), Math.min(high, 1)]];
    if (rings[axis] && high > 1 + 1e-9) codes.push([0, high - 1]);
    return codes;
  });
  return spans[0].flatMap(([left, right]) =>
    spans[1].map(([low, high]) => {
      const x = Math.round(left * width), y = Math.round((1 - high) * height); // whole pixels, or seams would show
      return [x, y, Math.round(right * width) - x, Math.round((1 - low) * height) - y];
    }),
  );
};
