// Puts the page together: devices, switches, the form, and one stream of events for all of it.

import { ask, by, follow, get, made, post } from "/page/api.js";
import * as gallery from "/page/gallery.js";
import * as jobs from "/page/jobs.js";

const workspace = () => by("workspace").value || "default";
const gigabytes = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GB`;

async function devices() {
  const found = await get("/api/devices");
  by("devices").replaceChildren(...found.workers.map(device));
  const ready = await fetch("/readyz").then((answer) => answer.json());
  by("ready").textContent = ready.status === "ready" ? "ready" : ready.why;
  by("ready").className = `pill ${ready.status === "ready" ? "good" : "bad"}`;
}

function device(worker) {
  const share = worker.memory_bytes ? Math.min(1, worker.rss_bytes / worker.memory_bytes) : 0;
  const fill = made("i");
  fill.style.width = `${100 * share}%`;
  const count = worker.resident.length;
  const held = count ? `${count} ${count === 1 ? "model" : "models"} loaded` : "no model loaded";
  const armed = worker.armed.length ? `, ${worker.armed.length} with graphs` : "";
  return made("div", { class: "device", title: worker.job ?? worker.id },
    made("b", {}, worker.device, made("small", {}, worker.state)),
    made("div", { class: "bar" }, fill),
    made("small", {}, `${gigabytes(worker.rss_bytes)} of ${gigabytes(worker.memory_bytes)}, ${held}${armed}`));
}

async function switches() {
  const found = await get("/api/switches");
  by("pause").textContent = found.paused ? "Resume" : "Pause";
  by("pause").title = found.paused ? "Let waiting jobs begin" : "Let no waiting job begin";
  by("pause").onclick = () => told(async () => {
    await ask("PUT", "/api/switches", { paused: !found.paused });
    await switches();
  });
}

async function choices() {
  const [spaces, cards] = await Promise.all([get("/api/workspaces"), get("/api/cards")]);
  const chosen = workspace();
  by("workspace").replaceChildren(...spaces.workspaces.map((name) => made("option", {}, name)));
  by("workspace").value = spaces.workspaces.includes(chosen) ? chosen : "default";
  const usable = cards.cards.filter((card) => card.weights === "here");
  by("card").replaceChildren(...usable.map((card) => made("option", {}, card.name)));
  if (usable.some((card) => card.name === "shapes")) by("card").value = "shapes";
  const example = () => {
    by("prompt").placeholder = usable.find((card) => card.name === by("card").value)?.example ?? "";
  };
  by("card").onchange = example;
  example();
}

function submit(event) {
  event.preventDefault();
  const number = (id) => (by(id).value === "" ? undefined : Number(by(id).value));
  const generation = {
    card: by("card").value, prompt: by("prompt").value,
    seed: number("seed"), steps: number("steps"), n: number("count"),
  };
  told(() => post("/api/jobs", { generation, workspace: workspace() }));
}

async function told(work) {
  by("message").hidden = true;
  try {
    await work();
  } catch (error) {
    by("message").textContent = error.message;
    by("message").hidden = false;
  }
}

function log_in() {
  if (by("login").open) return;
  by("login").showModal();
  by("login-form").onsubmit = async (event) => {
    event.preventDefault();
    try {
      await post("/api/session", { token: by("token").value.trim() });
      location.reload();
    } catch (error) {
      by("login-message").textContent = error.message;
    }
  };
}

async function all() {
  await choices();
  await Promise.all([devices(), switches(), jobs.load(workspace()), gallery.load(workspace())]);
}

document.addEventListener("token-needed", log_in);
window.addEventListener("unhandledrejection", (event) => told(() => { throw event.reason; }));
by("make").onsubmit = submit;
by("workspace").onchange = () => { jobs.load(workspace()); gallery.load(workspace()); };
gallery.listen();
let later = 0;
let made_more = false;

function refresh() {
  devices();
  if (made_more) gallery.load(workspace());
  made_more = false;
}

told(async () => {
  await choices();  // A server that needs a token says so here.
  follow(async (event) => {
    const state = await jobs.happened(event);
    if (!state) return;
    made_more ||= jobs.is_final(state);
    clearTimeout(later);
    later = setTimeout(refresh, 300);
  }, all);
  setInterval(devices, 5000);
});
