// Sources: what offers tools, how their refreshes and calls go, and what is said of them.

import { post } from './api.js';
import { badge, button, code, count, el, empty, facts, json, link, nothing, problemBox, say, section, table, time, to } from './dom.js';
import { editDialog, only } from './form.js';
import { listScreen, search } from './list.js';
import { idField, open } from './thing.js';
import { severity } from './tools.js';

const PATH = '/api/sources';
const KINDS = ['openapi', 'mcp', 'http_manifest', 'workflow', 'builtin', 'custom'];
const TONES = { healthy: 'good', degraded: 'warn', unhealthy: 'bad', unknown: '' };
const BODY = ['name', 'description', 'url', 'settings', 'auth', 'client_certificate', 'allow', 'forward_headers', 'required_scopes',
  'trust', 'visibility', 'limits', 'refresh_every', 'shrink_limit'];
const SETTINGS = {
  openapi: { kind: 'openapi' },
  mcp: { kind: 'mcp' },
  'mcp-program': { kind: 'mcp', command: { program: '', arguments: [] } },
  http_manifest: { kind: 'http_manifest' },
  workflow: { kind: 'workflow', documents: [''] },
  builtin: { kind: 'builtin' },
  custom: { kind: 'custom', tools: [{ name: 'motd', description: 'Says a fixed text', answer: { text: 'Hello' } }] },
};

const health = (source) => [
  source.is_enabled ? badge(source.health, TONES[source.health]) : badge('off'),
  source.calls?.breaker === 'open' && badge('circuit open', 'bad'),
  source.calls?.agents_left_out > 0 && badge(`circuit open for ${count(source.calls.agents_left_out, 'agent', 'agents')}`, 'warn'),
];

const fields = (isNew) => [
  { name: 'name', label: 'Name', required: true },
  isNew && idField,
  isNew && { name: 'kind', kind: 'select', label: 'What it is', options: [
    ['openapi', 'An API with an OpenAPI specification'], ['mcp', 'An MCP server at a URL'], ['mcp-program', 'An MCP server that is a program'],
    ['http_manifest', 'A server with GET /tools'], ['workflow', 'Workflows'], ['builtin', 'Built-in tools'], ['custom', 'Tools written down here']],
  onpick: (kind) => registering.editor.control('settings')?.write(SETTINGS[kind]) },
  { name: 'url', label: 'URL', placeholder: 'http://api.example.com/openapi.json', wide: true, help: 'Of the specification, or of the server. A program has none.' },
  { name: 'description', kind: 'area', label: 'Description', wide: true },
  { name: 'trust', kind: 'select', label: 'New and changed tools', options: [['auto', 'are served at once'], ['review', 'wait for an admin']] },
  { name: 'visibility', kind: 'select', label: 'Agents meet them', options: [['listed', 'in their list'], ['searchable', 'through search'], ['hidden', 'only by name']] },
  { name: 'refresh_every', kind: 'number', min: 1, label: 'Refresh every (seconds)', help: 'Left out: by hand and by signal only.' },
  { name: 'allow', kind: 'lines', label: 'May be reached although not public', help: 'Addresses, networks or host names, one to a line.' },
  { name: 'auth', kind: 'json', label: 'How it shows itself to the upstream', help: 'Secrets are references: env:NAME, file:PATH, sealed:NAME.', wide: true },
  { name: 'settings', kind: 'json', label: 'Settings of its kind', wide: true },
].filter(Boolean);

let registering;
function register() {
  registering = editDialog({
    title: 'Register a source', label: 'Register', fields: () => fields(true),
    value: { trust: 'auto', visibility: 'listed', auth: { kind: 'none' }, settings: SETTINGS.openapi, kind: 'openapi' },
    async save({ kind, ...body }) {
      const made = await post(PATH, body);
      say(`${made.name} is registered; its first refresh follows by itself.`, 'good');
      location.hash = to('sources', made.id);
    },
  });
}

export function sources(context) {
  if (context.id !== undefined) return detail(context);
  const screen = listScreen(context, {
    title: 'Sources', about: 'What offers tools: APIs, MCP servers, workflows and more.', path: PATH, kind: ['source', 'tool'],
    actions: [button('Register a source', register, { class: 'primary', 'data-new': '' })],
    filters: [search, { name: 'kind', label: 'Kind', options: KINDS },
      { name: 'health', label: 'Health', options: ['unknown', 'healthy', 'degraded', 'unhealthy'] },
      { name: 'enabled', label: 'Switch', options: [['true', 'on'], ['false', 'off']] }],
    columns: [
      ['Source', (one) => [link('sources', one.id, one.name), el('br'), code(one.id)]],
      ['Kind', (one) => one.kind],
      ['Health', health],
      ['Tools', (one) => [count(one.tools.served, 'served', 'served'), one.tools.total !== one.tools.served && ` of ${one.tools.total}`,
        one.tools.waiting > 0 && [' ', badge(`${one.tools.waiting} waiting`, 'warn')],
        one.tools.with_findings > 0 && [' ', badge('findings', 'warn')]]],
      ['Last refresh', (one) => time(one.last_sync_ended_at)],
    ],
    none: () => empty('There is no source yet. Register an API, an MCP server, or the tools that come along.', button('Register a source', register, { class: 'primary' })),
  });
  if (context.params.has('new')) {
    history.replaceState(null, '', '#/sources');
    setTimeout(register);
  }
  return screen;
}

async function detail(context) {
  const { one: source, actions, at, act } = await open(context, {
    path: PATH, names: BODY, fields, words: 'Its tools go with it: groups and agents lose them.', end: 'Remove' });
  context.onChange('source', context.reload, source.id);
  context.onChange('tool', context.reload);
  const refreshed = resultPlace(source.id);
  const refresh = (force) => async () => {
    refreshed.replaceChildren(el('p', { class: 'faint', role: 'status' }, 'Asking the source…'));
    try {
      refreshed.replaceChildren(resultOf(await post(`${at}/refresh`, { force })));
    } catch (problem) {
      refreshed.replaceChildren(problemBox(problem));
      if (problem.code === 'inventory_shrinks') refreshed.append(button('Take it in all the same', refresh(true)));
    }
  };
  const isOpen = source.calls && source.calls.breaker !== 'closed';
  const isLeftOut = isOpen || source.calls?.agents_left_out > 0;
  return el('div', null, context.head(source.name, [button('Refresh', refresh(false), { id: 'do-refresh' }), actions], el('p', null, code(source.id), ' ', source.settings.kind, ' ', health(source))),
  source.description && el('p', { class: 'lead' }, source.description), refreshed,
  source.last_sync_error && el('div', { class: 'problem' }, el('p', null, el('strong', null, 'The last refresh failed: '), source.last_sync_error.message),
    el('p', null, code(source.last_sync_error.code), ' – ', count(source.failures, 'failure', 'failures'), ' in a row')),
  section('Refreshes and tools', facts([
    ['Tools', el('a', { href: `#/tools?source=${encodeURIComponent(source.id)}` }, `${source.tools.served} served of ${source.tools.total}`)],
    ['Waiting for review', source.tools.waiting > 0 ? el('a', { href: `#/tools?source=${encodeURIComponent(source.id)}&review=waiting` }, source.tools.waiting) : '0'],
    ['Switched off', source.tools.disabled], ['Gone at the source', source.tools.deprecated],
    ['Last refresh', time(source.last_sync_ended_at)], ['Next refresh', time(source.next_refresh_at)],
    ['Found', source.inventory && `${count(source.inventory.count, 'tool', 'tools')}, hash ${source.inventory.hash}`],
    ['Version', source.inventory?.version], ['URL', source.url], ['Trust', source.trust], ['Changed', time(source.updated_at)],
  ])),
  section('Calls on this node', source.calls ? [facts([
    ['Circuit', badge(source.calls.breaker, isOpen ? 'bad' : 'good')], ['Agents left out', source.calls.agents_left_out],
    ['Seconds left', source.calls.seconds_left], ['Running', source.calls.running],
    ['Waiting', source.calls.waiting], ['Tried again', source.calls.retries]]),
  isLeftOut && button('Call it again now', act('reset'), { id: 'do-reset' })] : el('p', { class: 'faint' }, 'Nothing was called yet.'),
  el('p', null, el('a', { href: `#/executions?source=${encodeURIComponent(source.id)}` }, 'Recorded calls'))),
  source.findings.length > 0 && section('Found in its texts', table(['Tool', 'How bad', 'What', 'Where'],
    source.findings.map((found) => [link('tools', found.tool_id), severity(found.severity), found.what, code(found.at)]), 'Findings')),
  source.warnings.length > 0 && section('What could not be converted', table(['Code', 'Where', 'What'],
    source.warnings.map((warning) => [code(warning.code), code(warning.at), warning.message]), 'Warnings')),
  typeof source.stderr === 'string' && section('What its program wrote last', source.stderr === '' ? nothing('Nothing.')
    : el('pre', { class: 'json', tabindex: '0', id: 'stderr' }, source.stderr)),
  section('Settings', json(only(source, BODY))));
}

/// What came of the last refresh from here; it stays when the screen is drawn again.
let last = {};
function resultPlace(id) {
  if (last.id !== id) last = { id, node: el('div', { id: 'refreshed' }) };
  return last.node;
}

function resultOf(result) {
  const word = (name, label) => result[name] > 0 && `${result[name]} ${label}`;
  const parts = [word('created', 'new'), word('updated', 'changed'), word('unchanged', 'as before'), word('deprecated', 'gone'),
    word('restored', 'back again'), word('kept_back', 'waiting for review')].filter(Boolean);
  const { critical, warnings, notes } = result.findings ?? {};
  return el('div', { class: `card ${result.success ? 'good' : 'bad'}`, role: 'status' },
    el('p', null, el('strong', null, result.success ? 'Refreshed. ' : 'The refresh failed. '), result.error?.message,
      ` ${count(result.discovered ?? 0, 'tool', 'tools')}: ${parts.join(', ') || 'nothing'}; ${result.duration_ms} ms.`),
    critical + warnings + notes > 0 && el('p', null, `Findings: ${critical} critical, ${warnings} warnings, ${notes} notes.`),
    result.warnings?.length > 0 && el('p', null, count(result.warnings.length, 'thing', 'things'), ' could not be converted.'));
}
