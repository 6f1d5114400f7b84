"use strict";
// A scenario as a form: a labelled control for every value that is there, in the order of the file.
const editor = (() => {
  const { make, fill, words } = tools;

  // Builds the form of some data; `changed(path, value)` hears of every edit.
  function build(holder, data, schema, changed) {
    const open = new Set([...holder.querySelectorAll("details[open]")].map((one) => one.dataset.path));
    const member = (schema.discriminator.mapping || {})[data.family];
    const start = member ? resolve(schema, { $ref: member }) : {};
    fill(holder, ...fieldsOf(data, start, [], { schema, changed, open }));
  }

  function fieldsOf(data, node, path, context) {
    const entries = Array.isArray(data) ? data.map((value, n) => [n, value]) : Object.entries(data);
    return entries.map(([key, value]) => {
      const below = Array.isArray(data) ? node.items || {} : (node.properties || {})[key] || {};
      return fieldOf(value, matching(context.schema, below, value), below.description, [...path, key], context);
    });
  }

  const written = (path) => path.reduce((text, step) => (typeof step === "number" ? `${text}[${step}]` : text ? `${text}.${step}` : step), "");
  const isGroup = (value) => value !== null && typeof value === "object" && (!Array.isArray(value) || value.some((one) => one !== null && typeof one === "object"));

  function fieldOf(value, node, description, path, context) {
    const place = written(path), key = path.at(-1);
    if (isGroup(value)) {
      const name = typeof key === "number" ? value.name || value.kind || `${key}` : words(key);
      return make("details", { "data-path": place, open: context.open.has(place) }, make("summary", { title: description }, name), ...fieldsOf(value, node, path, context));
    }
    const id = `field-${place}`, control = controlOf(value, node, id);
    control.dataset.path = place;
    control.addEventListener("change", () => context.changed(path, read(control, value)));
    return make("div", { class: "field" }, make("label", { for: id, title: description || node.description }, typeof key === "number" ? `${key}` : words(key)), control);
  }

  function controlOf(value, node, id) {
    if (typeof value === "boolean") { const box = make("input", { type: "checkbox", id }); box.checked = value; return box; }
    if (node.enum) return make("select", { id }, ...node.enum.map((one) => make("option", { value: one, selected: one === value }, String(one))));
    if (typeof value === "number") return make("input", { type: "number", step: "any", id, value });
    return make("input", { type: "text", id, value: typeof value === "string" ? value : JSON.stringify(value), readonly: node.const !== undefined });
  }

  // What a control says, as the kind of value that was there; what cannot be read stays text, and the check names it.
  function read(control, before) {
    if (control.type === "checkbox") return control.checked;
    if (typeof before === "number") return control.value === "" || Number.isNaN(control.valueAsNumber) ? control.value : control.valueAsNumber;
    if (typeof before === "string") return control.value;
    try { return JSON.parse(control.value); } catch { return control.value; }
  }

  function resolve(schema, node) {
    return node.$ref ? { ...schema.$defs[node.$ref.replace("#/$defs/", "")], ...(node.description ? { description: node.description } : {}) } : node;
  }

  // Of several forms that a value may have, the one whose constants it bears.
  function matching(schema, node, value) {
    const plain = resolve(schema, node), forms = plain.anyOf || plain.oneOf;
    if (!forms) return plain;
    const known = forms.map((form) => resolve(schema, form)).filter((form) => form.type !== "null");
    const fits = (form) => Object.entries(form.properties || {}).every(([key, field]) => field.const === undefined || (value || {})[key] === field.const);
    const found = known.find((form) => (isGroup(value) ? form.type !== "string" && fits(form) : !form.properties)) || known[0] || plain;
    return found.anyOf || found.oneOf ? matching(schema, found, value) : found;
  }

  // Puts every problem at its field; returns those that have none.
  function mark(holder, problems) {
    holder.querySelectorAll(".wrong").forEach((one) => one.remove());
    holder.querySelectorAll("[aria-invalid]").forEach((one) => { one.removeAttribute("aria-invalid"); one.removeAttribute("aria-describedby"); });
    return problems.filter(({ place, text }) => {
      const control = [...holder.querySelectorAll("[data-path]")].find((one) => one.dataset.path === place && one.tagName !== "DETAILS");
      if (!control) return true;
      control.setAttribute("aria-invalid", "true");
      control.setAttribute("aria-describedby", `${control.id}-wrong`);
      control.parentElement.append(make("span", { class: "wrong", id: `${control.id}-wrong` }, text));
      for (let up = control.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
      return false;
    });
  }

  return { build, mark };
})();
