// Asks the server. A failure is an Error with the problem's own words.

export async function ask(method, path, body) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 401 && path !== "/api/session") {
    document.dispatchEvent(new Event("token-needed"));
  }
  const text = await answer.text();
  const told = text ? JSON.parse(text) : null;
  if (!answer.ok) {
    const places = (told?.findings ?? []).map((each) => `${each.path}: ${each.message}`);
    throw new Error(places.length ? places.join("\n") : (told?.detail ?? answer.statusText));
  }
  return told;
}

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);

// Follows all events; `happened` gets each, `opened` is called whenever the stream begins or was away: what is
// looked at then, and not before, misses nothing.
export function follow(happened, opened) {
  const source = new EventSource("/api/events");
  source.onmessage = (event) => happened(JSON.parse(event.data));
  source.onopen = opened;
  return source;
}

// An element with attributes, properties that are functions, and children.
export function made(name, given = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (typeof value === "function") element[key] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const by = (id) => document.getElementById(id);
