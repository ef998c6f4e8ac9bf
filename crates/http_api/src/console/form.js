// Forms: fields for what is common, and the whole body as JSON for everything else. Both write the same body.

import { Problem } from './api.js';
import { button, dialog, el, jsonText, problemBox } from './dom.js';

let made = 0;
const newId = () => `field-${(made += 1)}`;

const lines = (value) => (value ?? []).join('\n');
const readLines = (value) => value.split('\n').map((line) => line.trim()).filter(Boolean);

function readJson(written, label) {
  try {
    return JSON.parse(written);
  } catch (error) {
    throw new Error(`${label}: this is not JSON (${error.message}).`);
  }
}

/// A value that is written as JSON if it can be read so, and as a text otherwise: `true`, `3`, `["a"]`, `staff`.
export function loose(written) {
  const trimmed = written.trim();
  if (trimmed === '') return undefined;
  try {
    return JSON.parse(trimmed);
  } catch {
    return trimmed;
  }
}

/// For each kind of field: its control, and how it is read. What reads as undefined is left out.
const KINDS = {
  text(field, value, id) {
    const input = el('input', { id, type: field.secret ? 'password' : 'text', value: value ?? '', required: field.required,
      placeholder: field.placeholder, list: field.list, autocomplete: 'off', spellcheck: 'false' });
    return { node: input, read: () => (input.value === '' && !field.required ? field.none : input.value) };
  },
  area(field, value, id) {
    const input = el('textarea', { id, rows: field.rows ?? 2, value: value ?? '' });
    return { node: input, read: () => (input.value === '' ? field.none : input.value) };
  },
  number(field, value, id) {
    const input = el('input', { id, type: 'number', value: value ?? '', min: field.min, step: field.step ?? '1', required: field.required });
    return { node: input, read: () => (input.value === '' ? field.none : Number(input.value)) };
  },
  colour(field, value, id) {
    const input = el('input', { id, type: 'color', value: value ?? '#808080' });
    return { node: input, read: () => input.value };
  },
  check(field, value, id) {
    const input = el('input', { id, type: 'checkbox', checked: value === true });
    return { node: input, read: () => (input.checked || field.always ? input.checked : undefined) };
  },
  select(field, value, id) {
    const options = field.options.map((option) => {
      const [word, label] = Array.isArray(option) ? option : [option, option];
      return el('option', { value: word, selected: word === String(value ?? '') }, label);
    });
    const input = el('select', { id }, options);
    if (field.onpick) input.addEventListener('change', () => field.onpick(input.value));
    return { node: input, read: () => (input.value === '' ? field.none : input.value) };
  },
  lines(field, value, id) {
    const input = el('textarea', { id, rows: Math.min(8, Math.max(2, (value ?? []).length + 1)), value: lines(value), spellcheck: 'false' });
    const isLeftOut = () => field.optional && readLines(input.value).length === 0;
    return { node: input, read: () => (isLeftOut() ? undefined : readLines(input.value)) };
  },
  words(field, value, id) {
    const input = el('input', { id, type: 'text', value: (value ?? []).join(', '), placeholder: field.placeholder, spellcheck: 'false' });
    const read = () => input.value.split(',').map((word) => word.trim()).filter(Boolean);
    return { node: input, read: () => (read().length === 0 ? field.none : read()) };
  },
  json(field, value, id) {
    const input = el('textarea', { id, class: 'json', rows: field.rows ?? 4, spellcheck: 'false', placeholder: field.placeholder,
      value: value === undefined ? '' : jsonText(value) });
    const read = () => (input.value.trim() === '' ? field.none : readJson(input.value, field.label));
    return { node: input, read, write: (next) => { input.value = jsonText(next); } };
  },
  loose(field, value, id) {
    const written = value === undefined ? '' : typeof value === 'string' && loose(value) === value ? value : JSON.stringify(value);
    const input = el('input', { id, type: 'text', value: written, placeholder: field.placeholder, spellcheck: 'false' });
    return { node: input, read: () => loose(input.value) };
  },
  choices(field, value) {
    const chosen = new Set(value ?? []);
    const known = [...new Set([...field.options, ...chosen])];
    const boxes = known.map((option) => {
      const input = el('input', { type: 'checkbox', value: option, checked: chosen.has(option) });
      return { input, node: el('label', { class: 'choice' }, input, ' ', option) };
    });
    const node = el('div', { class: 'choices', role: 'group', 'aria-label': field.label },
      boxes.length > 0 ? boxes.map((box) => box.node) : el('p', { class: 'faint' }, field.missing ?? 'There are none yet.'));
    return { node, read: () => boxes.filter((box) => box.input.checked).map((box) => box.input.value) };
  },
  rows(field, value) {
    const list = el('div', { class: 'rows' });
    let rows = [];
    const add = (from, focus) => {
      const fields = field.fields.map((part) => control(part, from[part.name]));
      const row = { from, fields, node: el('div', { class: 'row', role: 'group', 'aria-label': field.one }) };
      row.node.append(...fields.map((part) => part.node), el('button', { type: 'button', class: 'plain', 'aria-label': `Remove this ${field.one}`,
        onclick: () => { rows = rows.filter((other) => other !== row); row.node.remove(); more.focus(); } }, '×'));
      rows.push(row);
      list.append(row.node);
      if (focus) row.node.querySelector('input,select')?.focus();
    };
    const more = el('button', { type: 'button', onclick: () => add({}, true) }, `Add a ${field.one}`);
    (value ?? []).forEach((from) => add(from, false));
    return { node: el('div', null, list, more), read: () => rows.map((row) => gather(row.from, row.fields)) };
  },
};

/// A labelled control for one member.
function control(field, value) {
  const id = newId();
  const { node, read, write } = KINDS[field.kind ?? 'text'](field, value, id);
  const help = field.help && el('small', { id: `${id}-help` }, field.help);
  if (help) node.setAttribute('aria-describedby', help.id);
  const isGroup = field.kind === 'rows' || field.kind === 'choices';
  const label = el(isGroup ? 'span' : 'label', isGroup ? { class: 'label' } : { for: id }, field.label, field.required && el('span', { class: 'faint' }, ' (required)'));
  const isBox = field.kind === 'check';
  const whole = el('div', { class: `field ${isBox ? 'box' : ''} ${field.wide ? 'wide' : ''}` }, isBox ? [node, label] : [label, node], help);
  return { name: field.name, node: whole, control: node, read, write };
}

/// The body with what the fields say; what they do not know stays.
function gather(from, fields) {
  const body = { ...from };
  for (const field of fields) {
    const value = field.read();
    if (value === undefined) delete body[field.name];
    else body[field.name] = value;
  }
  return body;
}

/// Fields and, in their place, the JSON of the whole.
export function editor(fields, value) {
  const place = el('div', { class: 'fields' });
  let [from, controls, raw] = [value, [], null];
  const showFields = () => {
    raw = null;
    controls = fields.map((field) => control(field, from[field.name]));
    place.replaceChildren(...controls.map((field) => field.node));
  };
  const showJson = () => {
    raw = el('textarea', { class: 'json', rows: 18, spellcheck: 'false', 'aria-label': 'The whole as JSON', value: jsonText(from) });
    place.replaceChildren(raw);
  };
  const read = () => (raw ? readJson(raw.value, 'JSON') : gather(from, controls));
  const problems = el('div');
  const toggle = el('button', { type: 'button', class: 'plain', onclick: () => {
    try {
      from = read();
      problems.replaceChildren();
    } catch (error) {
      problems.replaceChildren(problemBox(error));
      return;
    }
    if (raw) showFields(); else showJson();
    toggle.textContent = raw ? 'Edit as a form' : 'Edit as JSON';
    (raw ?? place.querySelector('input,select,textarea'))?.focus();
  } }, 'Edit as JSON');
  showFields();
  return {
    node: el('div', null, problems, place), toggle, read,
    control: (name) => controls.find((field) => field.name === name),
    fail(problem) {
      problems.replaceChildren(problemBox(problem));
      const wrong = new Set((problem.errors ?? []).map(({ field }) => field.split(/[.[]/)[0]));
      for (const field of controls) field.control.toggleAttribute('aria-invalid', wrong.has(field.name));
      problems.scrollIntoView({ block: 'nearest' });
    },
    set(next) {
      from = next;
      problems.replaceChildren();
      if (raw) showJson(); else showFields();
    },
  };
}

/// Asks for a body and has it saved. `again` reads what is there now, for who was not the first to save; `preview` shows what
/// saving would do.
export function editDialog({ title, help, fields, value, label = 'Save', save, again, preview }) {
  const edited = editor(fields(value), value);
  const submit = el('button', { type: 'submit', class: 'primary' }, label);
  const effects = el('div', { id: 'effects', role: 'status' });
  const form = el('form', { onsubmit: async (event) => {
    event.preventDefault();
    if (submit.ariaBusy === 'true') return;
    submit.ariaBusy = 'true';
    try {
      await save(edited.read());
      shown.close();
    } catch (problem) {
      edited.fail(problem);
      if (again && problem instanceof Problem && problem.status === 412) {
        edited.node.prepend(button('Show what is there now, and drop my changes', async () => edited.set(await again())));
      }
    } finally {
      submit.ariaBusy = null;
    }
  }, onkeydown: (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  } }, help && el('p', { class: 'faint' }, help), edited.node, effects,
  el('footer', null, submit, preview && button('What would change?', async () => {
    try {
      effects.replaceChildren(await preview(edited.read()));
    } catch (problem) {
      edited.fail(problem);
    }
  }), el('button', { type: 'button', onclick: () => shown.close() }, 'Cancel'), edited.toggle));
  const shown = dialog(title, form);
  form.querySelector('input,select,textarea')?.focus();
  return { close: () => shown.close(), editor: edited };
}

/// The members that may be sent back, of something that was read.
export const only = (value, names) =>
  Object.fromEntries(names.filter((name) => value[name] !== undefined && value[name] !== null).map((name) => [name, value[name]]));
