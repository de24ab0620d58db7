// The REST interface for people, made of its schema: each operation with its parameters, body and a curl line.

import { by, get, made } from "/page/api.js";

const schema = await get("/openapi.json");
const groups = new Map();
for (const [path, operations] of Object.entries(schema.paths)) {
  for (const [verb, operation] of Object.entries(operations)) {
    if (verb === "head") continue;
    const tag = operation.tags?.[0] ?? "other";
    if (!groups.has(tag)) groups.set(tag, []);
    groups.get(tag).push(shown(verb, path, operation));
  }
}
for (const [tag, articles] of groups) by("operations").append(made("h2", {}, tag), ...articles);

function shown(verb, path, operation) {
  const body = operation.requestBody?.content;
  const form = resolved(Object.values(body ?? {})[0]?.schema);
  const example = examples(form)[0] ?? (form ? Object.fromEntries((form.required ?? []).map((name) => [name, "..."])) : null);
  const summary = made("summary", {}, made("span", { class: "verb" }, verb.toUpperCase()),
    made("code", {}, path), made("span", { class: "faint" }, operation.summary ?? ""));
  return made("article", {}, made("details", {}, summary, made("div", { class: "body" },
    made("p", {}, operation.description ?? ""), table(operation.parameters), table(fields(form)),
    made("pre", {}, curl(verb, path, example)))));
}

function resolved(part) {
  if (!part) return null;
  if (part.$ref) return schema.components.schemas[part.$ref.split("/").pop()];
  if (part.anyOf) return resolved(part.anyOf.find((each) => each.type !== "null"));
  return part;
}

function examples(form) {
  return form?.examples ?? [];
}

function fields(form) {
  return Object.entries(form?.properties ?? {}).map(([name, value]) => ({
    name, description: value.description, required: form.required?.includes(name), schema: value,
  }));
}

function table(rows) {
  if (!rows?.length) return null;
  return made("table", {}, ...rows.map((row) => made("tr", {},
    made("td", {}, made("code", {}, row.name)), made("td", { class: "faint" }, kind(row.schema)),
    made("td", {}, `${row.required ? "required. " : ""}${row.description ?? ""}`))));
}

function kind(part) {
  const found = part?.anyOf ? part.anyOf.filter((each) => each.type !== "null") : [part];
  return found.map((each) => each?.type ?? each?.$ref?.split("/").pop() ?? "any").join(" or ");
}

function curl(verb, path, example) {
  const data = example ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example)}'` : "";
  return `curl${verb === "get" ? "" : ` -X ${verb.toUpperCase()}`} ${location.origin}${path}${data}`;
}
