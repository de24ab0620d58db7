// The jobs on the page: what waits, what runs with its preview and progress, what has ended.

import { by, get, made, post } from "/page/api.js";

const FINAL = ["succeeded", "failed", "cancelled", "quarantined"];
const jobs = new Map();
const cards = new Map();
let workspace = "default";

export async function load(name) {
  workspace = name;
  jobs.clear();
  const here = `workspace=${encodeURIComponent(name)}`;
  const lists = await Promise.all([
    get(`/api/jobs?${here}&state=running&limit=100`),
    get(`/api/jobs?${here}&state=queued&limit=200`),
    get(`/api/jobs?${here}&limit=60`),
  ]);
  for (const list of lists) for (const job of list.jobs) if (!jobs.has(job.id)) known(job);
  draw();
}

function known(job) {
  jobs.set(job.id, job);
  if (job.progress) progressed(job, job.progress);
}

export const is_final = (state) => FINAL.includes(state);

// Takes note of an event; the state that a job has moved to, or null.
export async function happened(event) {
  const job = jobs.get(event.job);
  if (event.kind === "state" || !job) {
    const found = await get(`/api/jobs/${event.job}`);
    if (found.workspace !== workspace) return null;
    jobs.set(event.job, { ...job, ...found });
    draw();
    return found.state;
  }
  if (event.kind === "progress") progressed(job, event.data);
  if (event.kind === "preview") job.preview = `/api/jobs/${job.id}/previews/${event.data.file.split("/").pop()}`;
  if (event.kind === "step") job.step = event.data.step;
  if (event.kind === "stall") job.note = `silent for ${event.data.silent_s} s`;
  if (event.kind === "cancelling") job.note = "stopping at its next step";
  if (job.state === "running") update(job);
  return null;
}

// A handler of an endpoint tells a fraction and what it does; a generation counts the steps of each picture.
function progressed(job, { done, total, fraction, note, picture = 1, pictures = 1 }) {
  const which = pictures > 1 ? `picture ${picture} of ${pictures}, ` : "";
  job.far = total ? `${which}${done}${fraction === undefined ? ` of ${total} steps` : " %"}` : "";
  job.share = total ? (picture - 1 + done / total) / pictures : 0;
  if (note) job.step = note;
}

function draw() {
  const all = [...jobs.values()].sort((a, b) => b.created - a.created);
  const running = all.filter((job) => job.state === "running");
  const waiting = all.filter((job) => job.state === "queued").sort((a, b) => b.priority - a.priority || a.created - b.created);
  const ended = all.filter((job) => FINAL.includes(job.state)).slice(0, 12);
  by("running-count").textContent = running.length || "";
  by("waiting-count").textContent = waiting.length || "";
  for (const [id, card] of cards) {
    if (!running.some((job) => job.id === id)) { card.root.remove(); cards.delete(id); }
  }
  for (const job of running) update(job);
  by("waiting").replaceChildren(...waiting.slice(0, 50).map(row_waiting));
  by("ended").replaceChildren(...ended.map(row_ended));
}

function update(job) {
  let card = cards.get(job.id);
  if (!card) {
    card = new_card(job);
    cards.set(job.id, card);
    by("running").append(card.root);
  }
  if (job.preview && card.look.getAttribute("src") !== job.preview) card.look.src = job.preview;
  card.step.textContent = job.note ?? job.step ?? job.why;
  card.done.textContent = `${job.far || "loading"} on ${job.device}`;
  card.fill.style.width = `${100 * (job.share ?? 0)}%`;
}

function new_card(job) {
  const parts = {
    look: made("img", { class: "look", alt: "" }),
    step: made("span", { class: "faint" }),
    done: made("small", { class: "faint" }),
    fill: made("i"),
  };
  parts.look.onerror = () => parts.look.removeAttribute("src");
  const stop = made("button", { class: "quiet small", onclick: () => post(`/api/jobs/${job.id}/cancel`) }, "Cancel");
  const what = made("div", { class: "what" },
    made("span", { title: `${job.title}\n${job.id}\n${job.why}` }, job.title), parts.step,
    made("div", { class: "bar" }, parts.fill), parts.done, stop);
  return { ...parts, root: made("div", { class: "job" }, parts.look, what) };
}

function row_waiting(job, number) {
  const first = () => post(`/api/jobs/${job.id}/move`, { priority: job.priority + 1 });
  return made("li", {},
    made("span", { class: "state queued" }, `${number + 1}`),
    made("span", { class: "label", title: job.id }, job.title),
    made("button", { class: "quiet small", onclick: first, title: "Raise its priority" }, "Sooner"),
    made("button", { class: "quiet small", onclick: () => post(`/api/jobs/${job.id}/cancel`) }, "Cancel"));
}

function row_ended(job) {
  const took = job.started && job.ended ? `${(job.ended - job.started).toFixed(1)} s` : "";
  const reused = job.record?.reused?.length ? `${job.record.reused.length} reused` : "";
  const told = job.failure?.reason ?? [reused, took].filter(Boolean).join(", ");
  return made("li", { class: job.state },
    made("span", { class: `state ${job.state}` }, job.state),
    made("span", { class: "label", title: `${job.id}\n${told}` }, job.title, made("span", { class: "told" }, told)),
    made("button", { class: "quiet small", onclick: () => post(`/api/jobs/${job.id}/rerun`) }, "Again"));
}
