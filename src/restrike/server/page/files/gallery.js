// The gallery: what runs left, what made it, and making it again.

import { ask, by, get, made, post } from "/page/api.js";

let workspace = "default";
let next = null;
let open = null;

const here = () => `workspace=${encodeURIComponent(workspace)}`;
const run_url = (file) => `/api/runs/${file.run}`;

export async function load(name) {
  workspace = name;
  const page = await get(`/api/gallery?${here()}&limit=24`);
  by("gallery").replaceChildren(...page.files.map(tile));
  turn(page);
}

export function listen() {
  by("more").onclick = async () => {
    const page = await get(`/api/gallery?${here()}&limit=24&before=${encodeURIComponent(next)}`);
    by("gallery").append(...page.files.map(tile));
    turn(page);
  };
  by("close").onclick = () => by("shown").close();
  by("shown").onclose = () => by("shown-media").replaceChildren();
  by("again").onclick = () => again({});
  by("again-new").onclick = () => again({ new_seed: true });
  by("keep").onclick = keep;
}

function turn(page) {
  next = page.next;
  by("more").hidden = !next;
}

function media(file, large) {
  if (file.media_type.startsWith("image/")) return made("img", { src: file.url, alt: file.file, loading: "lazy" });
  if (file.media_type.startsWith("audio/")) return made("audio", { src: file.url, controls: "" });
  // A moment after the beginning, so that the first frame is shown before it plays.
  const video = made("video", { src: `${file.url}#t=0.001`, loop: "", preload: "metadata", playsinline: "", controls: large ? "" : null });
  video.muted = true;
  video.onmouseenter = () => video.play();
  if (large) video.autoplay = true;
  return video;
}

function tile(file) {
  const title = file.prompt || file.step;
  const place = `${file.run}/${file.file}`;
  const caption = made("figcaption", { title: `${title}\n${place}` }, made("b", {}, title), made("span", { class: "faint" }, file.run));
  return made("figure", { tabindex: "0", onclick: () => show(file), onkeydown: (key) => key.key === "Enter" && show(file) },
    media(file, false), caption);
}

async function show(file) {
  open = file;
  by("shown-name").textContent = `${file.run}/${file.file}`;
  by("shown-media").replaceChildren(media(file, true));
  by("shown-facts").replaceChildren();
  by("keep").textContent = "Keep as asset";
  by("shown").showModal();
  const [made_of, explained] = await Promise.all([
    get(`${run_url(file)}/provenance/${file.file}?${here()}`).catch(() => null),
    get(`${run_url(file)}/explain?${here()}`).catch(() => ({ steps: [] })),
  ]);
  const why = explained.steps.find((step) => step.action === file.step)?.why;
  const facts = made_of
    ? { card: made_of.card, seed: made_of.seed, item: made_of.item, ...made_of.arguments, weights: made_of.weights, ...made_of.versions }
    : { step: file.label, seed: file.seed };
  const rows = { prompt: facts.prompt, ...facts, why, size: `${file.size_bytes} bytes`, sha256: file.sha256 };
  by("shown-facts").replaceChildren(...Object.entries(rows).filter(said).flatMap(([name, value]) => [
    made("dt", {}, name), made("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value)),
  ]));
}

function said([, value]) {
  return value !== null && value !== undefined && value !== "" && !(typeof value === "object" && !Object.keys(value).length);
}

async function again(how) {
  await post(`${run_url(open)}/rerun?${here()}`, how);
  by("shown").close();
}

async function keep() {
  const name = `${open.run.replace("/", "-")}-${open.file.split("/").pop()}`;
  await ask("POST", "/api/assets/keep", { run: open.run, file: open.file, name, workspace, replace: true });
  by("keep").textContent = `Kept as $asset.${name}`;
}
