// Elements, texts and the small parts that every screen is made of. Texts of others only ever become text nodes, and what
// nobody could see in them is written out.

const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;
const isLayout = (char) => char === '\n' || char === '\t';
const written = (char) => `‹U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`;

/// A text without anything unseen, where only a string can stand.
export const plain = (value) =>
  String(value).replace(UNSEEN, (char) => (isLayout(char) ? char : written(char)));

/// A text as nodes; what nobody could see is marked.
export function text(value) {
  const whole = String(value);
  const nodes = document.createDocumentFragment();
  let from = 0;
  for (const found of whole.matchAll(UNSEEN)) {
    if (isLayout(found[0])) continue;
    nodes.append(whole.slice(from, found.index));
    const mark = document.createElement('span');
    mark.className = 'unseen';
    mark.textContent = written(found[0]);
    nodes.append(mark);
    from = found.index + found[0].length;
  }
  nodes.append(whole.slice(from));
  return nodes;
}

const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden', 'required', 'multiple', 'open', 'selected']);

function fill(element, given, children) {
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, name === 'href' ? value : plain(value));
  }
  for (const child of children.flat(9)) {
    if (child === undefined || child === null || child === false) continue;
    const isText = !(child instanceof Node);
    element.append(!isText ? child : element instanceof HTMLElement ? text(child) : plain(child));
  }
  return element;
}

/// An element with attributes, handlers (`onclick`) and children; a child that is no node is a text.
export const el = (name, given, ...children) => fill(document.createElement(name), given, children);
export const svg = (name, given, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', name), given, children);

export const to = (screen, id) => `#/${screen}${id === undefined ? '' : `/${encodeURIComponent(id)}`}`;
export const link = (screen, id, label) => el('a', { href: to(screen, id) }, label ?? id);
export const badge = (word, tone) => el('span', { class: `badge ${tone ?? ''}` }, word);
export const code = (value) => el('code', null, value);
export const nothing = (word = '–') => el('span', { class: 'faint' }, word);

const STEPS = [[60, 'second'], [60, 'minute'], [24, 'hour'], [365, 'day'], [Infinity, 'year']];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

function ago(date) {
  let [amount, unit] = [(date - Date.now()) / 1000, 'second'];
  for (const [size, name] of STEPS) {
    unit = name;
    if (Math.abs(amount) < size) break;
    if (size !== Infinity) amount /= size;
  }
  return Math.abs(amount) < 5 && unit === 'second' ? 'just now' : relative.format(Math.round(amount), unit);
}

/// A moment, as long ago as it is.
export function time(value) {
  if (!value) return nothing();
  const date = new Date(value);
  return el('time', { datetime: value, title: date.toLocaleString(), 'data-ago': '' }, ago(date));
}

/// Time goes by.
export function tick() {
  for (const one of document.querySelectorAll('time[data-ago]')) one.textContent = ago(new Date(one.dateTime));
}

export const clock = (value) => el('time', { datetime: value, title: new Date(value).toLocaleString() },
  new Date(value).toLocaleTimeString([], { hour12: false }));

export const count = (number, one, many) => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;

/// JSON to read. What cannot be seen is escaped as JSON does it.
export const jsonText = (value) => JSON.stringify(value, null, 2).replace(UNSEEN, (char) =>
  isLayout(char) ? char : [...Array(char.length).keys()]
    .map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''));
export const json = (value) => el('pre', { class: 'json', tabindex: '0' }, jsonText(value));

export const facts = (pairs) => el('dl', { class: 'facts' }, pairs.filter(Boolean).map(([name, value]) =>
  el('div', null, el('dt', null, name), el('dd', null, value === undefined || value === null || value === '' || value === false ? nothing() : value))));

export const section = (title, ...children) =>
  el('section', { class: 'card' }, el('h2', null, title), children);

const MOST_ROWS = 1000;
export const table = (heads, rows, label) => el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label },
  el('table', null,
    el('thead', null, el('tr', null, heads.map((head) => el('th', { scope: 'col' }, head)))),
    el('tbody', null, rows.slice(0, MOST_ROWS).map((cells) => el('tr', null, cells.map((cell) => el('td', null, cell)))))),
  rows.length > MOST_ROWS && el('p', { class: 'faint more' }, `and ${rows.length - MOST_ROWS} more`));

export const empty = (words, ...more) => el('div', { class: 'empty' }, el('p', null, words), more);

/// Has a list show these nodes. Those that stay are not touched, so that the focus is not lost.
export function showNodes(list, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...list.children]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, at) => { if (list.children[at] !== node) list.insertBefore(node, list.children[at] ?? null); });
}

/// Something to press. While it works it cannot be pressed again; what goes wrong is said.
export function button(label, work, given = {}) {
  // Not `disabled`: the focus would be lost.
  const made = el('button', { type: 'button', ...given, onclick: async () => {
    if (made.ariaBusy === 'true') return;
    made.ariaBusy = 'true';
    try {
      await work();
    } catch (problem) {
      say(problem, 'bad');
    } finally {
      made.ariaBusy = null;
    }
  } }, label);
  return made;
}

/// Says something in passing.
export function say(what, tone = '') {
  const place = document.getElementById('said');
  const note = el('p', { class: `note ${tone}` }, what instanceof Error ? what.message : what);
  note.append(el('button', { type: 'button', class: 'plain', 'aria-label': 'Close', onclick: () => note.remove() }, '×'));
  place.append(note);
  setTimeout(() => note.remove(), tone === 'bad' ? 12000 : 5000);
}

/// What went wrong, with the place of each mistake.
export function problemBox(problem) {
  const mistakes = (problem.errors ?? []).map(({ field, message }) => el('li', null, code(field), ' ', message));
  const found = (problem.findings ?? []).map((finding) => el('li', null, finding.what));
  return el('div', { class: 'problem', role: 'alert' }, el('p', null, problem.message),
    mistakes.length > 0 && el('ul', null, mistakes), found.length > 0 && el('ul', null, found));
}

/// A dialog over everything; Escape closes it, and the focus goes back to where it was.
export function dialog(title, ...children) {
  const before = document.activeElement;
  const made = el('dialog', { 'aria-label': title, onclose: () => {
    made.remove();
    const isThere = before?.isConnected && before !== document.body;
    const again = isThere ? before : document.getElementById(before?.id || 'title');
    again?.focus();
  } }, el('header', null, el('h2', null, title),
    el('button', { type: 'button', class: 'plain', 'aria-label': 'Close', onclick: () => made.close() }, '×')), children);
  document.body.append(made);
  made.showModal();
  return made;
}

/// Asks before something is done that cannot be taken back.
export function sure(title, words, label) {
  return new Promise((answer) => {
    const yes = el('button', { type: 'button', class: 'danger', onclick: () => { answer(true); made.close(); } }, label);
    const no = el('button', { type: 'button', onclick: () => made.close() }, 'Cancel');
    const made = dialog(title, el('p', null, words), el('footer', null, yes, no));
    made.addEventListener('close', () => answer(false));
    no.focus();
  });
}
