// What happens, as it happens: one stream for all screens. It comes back by itself, with the id of the last event.

import { stream } from './api.js';

const KEPT = 400;
const listeners = new Set();
export const seen = { items: [], changes: 0, calls: 0, failed: 0, state: 'off' };
let running;

/// Tells of every event until the signal.
export function listen(work, signal) {
  listeners.add(work);
  signal.addEventListener('abort', () => listeners.delete(work));
}

function tell(item) {
  for (const work of [...listeners]) work(item);
}

function become(state) {
  seen.state = state;
  tell(null);
}

function take(name, data, isOld) {
  const item = { name, ...data, isOld };
  seen.items.unshift(item);
  // What was before comes in two parts, and calls come a moment later than changes.
  if (seen.items.length > 1 && Date.parse(item.time) < Date.parse(seen.items[1].time)) {
    seen.items.sort((one, other) => Date.parse(other.time) - Date.parse(one.time));
  }
  seen.items.length = Math.min(seen.items.length, KEPT);
  if (!isOld) {
    if (name === 'change') seen.changes += 1;
    else {
      seen.calls += 1;
      if (data.status === 'failed') seen.failed += 1;
    }
  }
  tell(item);
}

export async function start() {
  stop();
  const controller = new AbortController();
  running = controller;
  Object.assign(seen, { items: [], changes: 0, calls: 0, failed: 0 });
  let [lastId, wait, old] = [undefined, 500, undefined];
  while (!controller.signal.aborted) {
    await visible();
    become('connecting');
    connection = new AbortController();
    const signal = AbortSignal.any([controller.signal, connection.signal]);
    try {
      for await (const event of stream('/api/activity', lastId ? {} : { last: 100 }, lastId, signal)) {
        wait = 500;
        if (seen.state !== 'live') become('live');
        if (event.id) lastId = event.id;
        if (event.name === 'hello') old ??= event.data;
        if (event.name === 'change') take(event.name, event.data, event.data.position <= old.position);
        if (event.name === 'call') take(event.name, event.data, event.data.id <= old.call);
      }
    } catch (problem) {
      if (controller.signal.aborted || problem.status === 401 || problem.status === 403) break;
    }
    become('lost');
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 10000);
  }
  if (running === controller) become('off');
}

/// A tab that nobody looks at gives its connection back: browsers have few for one server.
let [pause, connection] = [null, null];
document.addEventListener('visibilitychange', () => {
  clearTimeout(pause);
  if (document.hidden) pause = setTimeout(() => connection?.abort(), 60000);
});

const visible = () => new Promise((done) => {
  const look = () => { if (!document.hidden) { document.removeEventListener('visibilitychange', look); done(); } };
  document.addEventListener('visibilitychange', look);
  look();
});

export function stop() {
  running?.abort();
  running = undefined;
}
