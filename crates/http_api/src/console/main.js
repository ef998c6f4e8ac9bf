// The frame: signing in, finding the screen that the address names, and what every screen can ask for.

import { forget, hasKey, keep, onRefused, whoami } from './api.js';
import { activity, executions } from './activity.js';
import { dialog, el, problemBox, say, tick, to } from './dom.js';
import { attempt, explain } from './explain.js';
import { groups } from './groups.js';
import { keys, server } from './keys.js';
import { labels } from './labels.js';
import { listen, seen, start, stop } from './live.js';
import { overview } from './overview.js';
import { policies } from './policies.js';
import { sources } from './sources.js';
import { tools } from './tools.js';

const SCREENS = [
  ['', 'Overview', overview],
  ['sources', 'Sources', sources],
  ['tools', 'Tools', tools],
  ['groups', 'Groups', groups],
  ['policies', 'Policies', policies],
  ['labels', 'Labels', labels],
  ['keys', 'Keys', keys],
  ['activity', 'Live activity', activity],
  ['executions', 'Calls', executions],
  ['try', 'Try a tool', attempt],
  ['explain', 'Explain', explain],
  ['server', 'Server', server],
];
const app = document.getElementById('app');
const main = el('main', { id: 'main', tabindex: '-1' });
let leaving = new AbortController();
let shown = '';

/// The key of a link, which no server has seen; it does not stay in the address.
function keyOfLink() {
  const found = /^#key=(.+)$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, '', location.pathname);
  return decodeURIComponent(found[1]);
}

async function enter(key) {
  keep(key);
  try {
    const who = await whoami();
    if (!who.is_admin) throw new Error('This key is not an admin’s: it may use tools, and change nothing. The console is for admins.');
    return who;
  } catch (problem) {
    forget();
    throw problem;
  }
}

function signIn(problem) {
  stop();
  leaving.abort();
  document.title = 'Sign in – toolcrib';
  const input = el('input', { id: 'key', type: 'password', required: true, autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'key-help' });
  const failed = el('div', null, problem && problemBox(problem));
  const submit = el('button', { type: 'submit', class: 'primary' }, 'Sign in');
  const form = el('form', { onsubmit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      frame(await enter(input.value.trim()));
    } catch (error) {
      failed.replaceChildren(problemBox(error));
      submit.disabled = false;
      input.select();
    }
  } }, el('label', { for: 'key' }, 'Admin key'), input,
  el('small', { id: 'key-help' }, 'A key of an admin, or a token that makes one. The server shows the first when it starts; ',
    el('code', null, 'toolcrib serve --new-admin-key'), ' makes another. It is forgotten when this tab is closed.'), failed, submit);
  app.replaceChildren(el('div', { class: 'sign-in' }, el('div', { class: 'card' }, logo(), el('h1', null, 'Sign in'), form)));
  input.focus();
}

const logo = () => el('p', { class: 'logo' }, el('span', { class: 'mark', 'aria-hidden': 'true' }), 'toolcrib');

function frame(who) {
  const items = SCREENS.map(([name, label]) => el('li', null, el('a', { href: to(name), 'data-screen': name }, label)));
  const state = el('p', { role: 'status' });
  const drawState = () => {
    const words = { live: 'Live', connecting: 'Connecting', lost: 'Not connected: trying again', off: 'Not live' };
    state.className = `state ${seen.state}`;
    state.textContent = words[seen.state];
  };
  listen((item) => item === null && drawState(), new AbortController().signal);
  app.replaceChildren(
    el('button', { class: 'skip', type: 'button', onclick: () => main.focus() }, 'Skip to the content'),
    el('div', { class: 'frame' },
      el('nav', { 'aria-label': 'Screens' }, logo(), el('ul', null, items),
        el('footer', null, state, el('p', { class: 'who', title: who.subject }, who.subject),
          el('button', { type: 'button', class: 'plain', onclick: () => { forget(); signIn(); } }, 'Sign out'),
          el('button', { type: 'button', class: 'plain', onclick: help }, 'Keyboard'))),
      main));
  drawState();
  start();
  shown = '';
  draw();
}

function help() {
  const row = (key, what) => el('div', null, el('dt', null, el('kbd', null, key)), el('dd', null, what));
  dialog('On the keyboard', el('dl', { class: 'facts' }, row('/', 'Go to the search of this screen'),
    row('n', 'Make something new on this screen'), row('g then a letter', 'Go to a screen: o s t g p l k a c y e'),
    row('Esc', 'Close a dialog'), row('Ctrl Enter', 'Save what is being edited'), row('?', 'Show this')));
}

/// Draws the screen of the address.
async function draw() {
  if (!hasKey()) return;
  leaving.abort();
  leaving = new AbortController();
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  const [, label, screen] = SCREENS.find(([known]) => known === name) ?? SCREENS[0];
  const id = rest.length > 0 ? decodeURIComponent(rest.join('/')) : undefined;
  for (const a of document.querySelectorAll('nav a')) {
    if (a.dataset.screen === name) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  const context = makeContext(name, id, new URLSearchParams(query), leaving.signal);
  const isNew = shown !== path;
  const before = seen.changes;
  document.title = `${id ?? label} – toolcrib`;
  main.setAttribute('aria-busy', 'true');
  let content;
  try {
    content = await screen(context);
  } catch (problem) {
    content = el('div', null, context.head(id ?? label), problem.status === 404
      ? el('div', { class: 'empty' }, el('p', null, 'This is not there, or no longer.'), el('a', { href: to(name) }, `All ${label.toLowerCase()}`))
      : problemBox(problem));
  }
  if (context.signal.aborted) return;
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  main.replaceChildren(content);
  main.removeAttribute('aria-busy');
  shown = path;
  // What happened while it was read may not be in it.
  if (seen.changes !== before) setTimeout(() => { if (!context.signal.aborted && document.querySelector('dialog form') === null) draw(); }, 250);
  if (isNew) {
    window.scrollTo(0, 0);
    if (document.querySelector('dialog') === null) document.getElementById('title')?.focus({ preventScroll: true });
  } else if (focused) {
    const isIt = (one) => (focused.id ? one.id === focused.id : focused.hasAttribute('href') && one.getAttribute('href') === focused.getAttribute('href'));
    [...main.querySelectorAll('a, button, input')].find(isIt)?.focus({ preventScroll: true });
  }
}

/// What a screen can ask for while it is shown.
function makeContext(name, id, params, signal) {
  return {
    name, id, params, signal,
    reload: draw,
    /// Does something after whatever happens, once for all that happens at a time.
    live(work) {
      let isDue = false;
      listen(() => {
        if (!isDue) requestAnimationFrame(() => { isDue = false; if (!signal.aborted) work(); });
        isDue = true;
      }, signal);
    },
    head: (title, actions = [], ...more) => el('header', { class: 'head' },
      el('div', null, el('h1', { id: 'title', tabindex: '-1' }, title), more), el('div', { class: 'actions' }, actions)),
    /// Does something, soon, after what is shown here has changed.
    onChange(kinds, work, which) {
      let waiting;
      listen((item) => {
        if (item === null || item.isOld) return;
        if (![kinds].flat().includes(item.name === 'call' ? 'call' : item.kind)) return;
        if (which !== undefined && item.id !== which) return;
        waiting ??= setTimeout(function soon() {
          const isEdited = document.querySelector('dialog form') !== null;
          waiting = isEdited && !signal.aborted ? setTimeout(soon, 250) : undefined;
          if (!isEdited && !signal.aborted) work();
        }, 250);
      }, signal);
    },
  };
}

const LETTERS = { o: '', s: 'sources', t: 'tools', g: 'groups', p: 'policies', l: 'labels', k: 'keys', a: 'activity', c: 'executions', y: 'try', e: 'explain' };
let going = 0;
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !hasKey()) return;
  if (event.target.closest('input,textarea,select,dialog')) return;
  if (Date.now() - going < 1500 && event.key in LETTERS) {
    going = 0;
    location.hash = to(LETTERS[event.key]);
  } else if (event.key === 'g') going = Date.now();
  else if (event.key === '/') (main.querySelector('[data-search]') ?? main.querySelector('input,textarea'))?.focus();
  else if (event.key === 'n') main.querySelector('[data-new]')?.click();
  else if (event.key === '?') help();
  else return;
  event.preventDefault();
});

window.addEventListener('hashchange', () => {
  const key = keyOfLink();
  if (key === null) return draw();
  enter(key).then(frame, signIn);
});
window.addEventListener('unhandledrejection', (event) => {
  if (event.reason?.name !== 'AbortError') say(event.reason, 'bad');
});
onRefused(signIn);
setInterval(tick, 20000);

const given = keyOfLink();
if (given !== null) enter(given).then(frame, signIn);
else if (hasKey()) whoami().then((who) => (who.is_admin ? frame(who) : signIn()), signIn);
else signIn();
