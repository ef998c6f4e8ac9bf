// Live activity, and the record of calls.

import { get, of } from './api.js';
import { badge, button, clock, code, count, el, empty, facts, link, nothing, section, showNodes, time } from './dom.js';
import { listScreen } from './list.js';
import { seen } from './live.js';

const SCREENS = { source: 'sources', tool: 'tools', group: 'groups', policy: 'policies', label: 'labels', key: 'keys' };
const words = (type) => type.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
const took = (call) => `${(call.duration_us / 1000).toLocaleString('en', { maximumFractionDigits: 1 })} ms`;
const ended = (call) => badge(call.status, { completed: 'good', failed: 'bad', cancelled: 'warn' }[call.status]);

/// One thing that happened, as a line; the same each time.
export const line = (item) => (item.line ??= written(item));

function written(item) {
  if (item.name === 'call') {
    return el('li', { class: `event call ${item.status}` }, clock(item.time), ' ', ended(item), ' ',
      item.tool_id ? link('tools', item.tool_id) : nothing('unknown tool'), ' called by ', code(item.subject), ` in ${took(item)} `,
      item.error && el('span', { class: 'faint' }, item.error), ' ', link('executions', item.id, 'more'));
  }
  const screen = SCREENS[item.kind];
  return el('li', { class: 'event change' }, clock(item.time), ' ', badge(words(item.type)), ' ',
    screen ? link(screen, item.id) : code(item.id), ' by ', code(item.actor));
}

export function activity(context) {
  let isPaused = false;
  const nothingYet = el('li', { class: 'faint' }, 'Nothing yet. Whatever happens appears here.');
  const list = el('ul', { class: 'events', id: 'events' });
  const counts = el('div', { class: 'tiles small', id: 'counts' });
  const number = (id, value, label) => el('div', { class: 'tile' }, el('strong', { id }, value.toLocaleString('en')), el('span', null, label));
  const shows = el('select', { id: 'show', onchange: () => draw() },
    [['', 'everything'], ['change', 'changes'], ['call', 'calls'], ['failed', 'failed calls']].map(([word, label]) => el('option', { value: word }, label)));
  const looked = el('input', { id: 'filter', type: 'search', 'data-search': '', autocomplete: 'off', oninput: () => draw() });
  const fits = (item) => (shows.value === '' || item.name === shows.value || (shows.value === 'failed' && item.status === 'failed'))
    && (looked.value === '' || JSON.stringify(item).toLowerCase().includes(looked.value.toLowerCase()));
  const draw = () => {
    counts.replaceChildren(number('count-changes', seen.changes, 'changes'), number('count-calls', seen.calls, 'calls'), number('count-failed', seen.failed, 'failed calls'));
    if (isPaused) return;
    const items = seen.items.filter(fits).slice(0, 200);
    showNodes(list, items.length > 0 ? items.map(line) : [nothingYet]);
  };
  const pause = button('Pause', () => { isPaused = !isPaused; pause.textContent = isPaused ? 'Go on' : 'Pause'; draw(); }, { id: 'do-pause' });
  context.live(draw);
  draw();
  return el('div', null, context.head('Live activity', [pause]),
    el('p', { class: 'lead' }, 'Changes of the catalog and calls of tools on all nodes, as they happen. Counted since you opened the console.'), counts,
    el('div', { class: 'filters', role: 'search' }, el('div', { class: 'field search' }, el('label', { for: 'filter' }, 'Only with these words'), looked),
      el('div', { class: 'field' }, el('label', { for: 'show' }, 'Show'), shows)), el('section', { class: 'card' }, list));
}

export function executions(context) {
  if (context.id !== undefined) return detail(context);
  return listScreen(context, {
    title: 'Calls', about: 'The record: who called what, when, and how it ended. Every row has the hash of the one before.', path: '/api/executions', kind: 'call',
    filters: [{ name: 'tool', label: 'Tool' }, { name: 'source', label: 'Source' }, { name: 'subject', label: 'Caller' }, { name: 'correlation_id', label: 'Request' },
      { name: 'status', label: 'Ended', options: ['completed', 'failed', 'cancelled'] },
      { name: 'code', label: 'Because of', options: ['validation_error', 'not_granted', 'insufficient_scope', 'token_exchange_failed', 'client_credentials_failed',
        'upstream_timeout', 'upstream_connection_error', 'upstream_error', 'circuit_open', 'rate_limited', 'template_error', 'poll_timeout', 'poll_failed', 'builtin_error', 'internal_error'] },
      { name: 'since', label: 'Since (UTC)' }],
    columns: [
      ['When', (call) => [time(call.time), el('br'), link('executions', call.id, `no. ${call.id}`)]],
      ['Tool', (call) => (call.tool_id ? link('tools', call.tool_id) : nothing('unknown'))],
      ['Caller', (call) => [code(call.subject), el('br'), el('small', null, `by ${call.means} over ${call.door}`)]],
      ['Ended', (call) => [ended(call), call.code && [' ', code(call.code)]]],
      ['Took', took],
    ],
    none: () => empty('No call is recorded yet. Try a tool, and it appears here.', el('a', { class: 'button primary', href: '#/try' }, 'Try a tool')),
  });
}

async function detail(context) {
  const call = await get(of('/api/executions', context.id));
  return el('div', null, context.head(`Call no. ${call.id}`, [], el('p', null, ended(call), ' ', call.tool_id && link('tools', call.tool_id))),
    call.error && el('div', { class: 'problem' }, el('p', null, call.error), call.code && el('p', null, code(call.code))),
    section('What is recorded', facts([
      ['When', [time(call.time), ' ', new Date(call.time).toLocaleString()]], ['Caller', code(call.subject)], ['Shown', call.means], ['Issuer', call.issuer], ['Client', call.client],
      ['Door', call.door], ['Source', call.source_id && link('sources', call.source_id)], ['Took', took(call)], ['Upstream status', call.upstream_status],
      ['Arguments', count(call.argument_bytes, 'byte', 'bytes')], ['Result', count(call.result_bytes, 'byte', 'bytes')], ['Node', code(call.node)],
      ['Request', call.correlation_id && code(call.correlation_id)], ['Trace', call.trace_id && code(call.trace_id)],
      ['Hash', code(call.hash)], ['Hash before', code(call.previous)]])),
    call.arguments && section('Arguments', el('pre', { class: 'json', tabindex: '0' }, call.arguments)));
}
