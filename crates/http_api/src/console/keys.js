// Keys: claims for whoever presents one. And the server: who you are, whose tokens are taken, which file is followed.

import { get, post, whoami } from './api.js';
import { badge, button, code, dialog, el, empty, facts, json, link, nothing, problemBox, say, section, sure, table, time } from './dom.js';
import { listScreen, search } from './list.js';
import { idField, maker, open } from './thing.js';

const PATH = '/api/keys';
const BODY = ['name', 'description', 'claims', 'admin', 'expires_at'];

const fields = (isNew) => [
  { name: 'name', label: 'Name', required: true },
  isNew && idField,
  { name: 'description', kind: 'area', label: 'Description', wide: true },
  { name: 'claims', kind: 'json', label: 'Claims', help: 'What policies see of its holder, as if a token said so.', wide: true, placeholder: '{"role": "waiter"}' },
  { name: 'expires_at', label: 'Ends at', placeholder: '2027-01-31T00:00:00Z', help: 'Left out: when it is revoked.' },
  { name: 'admin', kind: 'check', label: 'Its holder is an admin', wide: true },
].filter(Boolean);

function showKey(made) {
  const copy = button('Copy', async () => { await navigator.clipboard.writeText(made.key); say('Copied.', 'good'); }, { class: 'primary' });
  setTimeout(() => dialog(`The key of ${made.name}`, el('p', null, 'It is shown only now. Give it to whoever is to have it, and keep it nowhere else.'),
    el('pre', { class: 'json', id: 'made-key', tabindex: '0' }, made.key), el('footer', null, copy)));
}

const create = maker({ screen: 'keys', path: PATH, title: 'New key', label: 'Make the key', fields, value: { claims: {} }, then: showKey });

const state = (key) => [key.is_revoked ? badge('revoked', 'bad') : key.expires_at && Date.parse(key.expires_at) < Date.now() ? badge('expired', 'bad') : badge('good', 'good'),
  key.admin && [' ', badge('admin', 'warn')]];

export function keys(context) {
  if (context.id !== undefined) return detail(context);
  return listScreen(context, {
    title: 'Keys', about: 'API keys for agents and admins. Only their hashes are stored.', path: PATH, kind: 'key',
    actions: [button('New key', create, { class: 'primary', 'data-new': '' })],
    filters: [search, { name: 'revoked', label: 'Revoked', options: [['true', 'yes'], ['false', 'no']] }, { name: 'admin', label: 'Of admins', options: [['true', 'yes'], ['false', 'no']] }],
    columns: [
      ['Key', (one) => [link('keys', one.id, one.name), el('br'), code(one.id)]],
      ['Claims', (one) => code(JSON.stringify(one.claims ?? {}))],
      ['Ends', (one) => (one.expires_at ? time(one.expires_at) : nothing('never'))],
      ['State', state],
    ],
    none: () => empty('There is no key.', button('New key', create, { class: 'primary' })),
  });
}

async function detail(context) {
  const words = 'Whoever has it is shut out at once, and it disappears from the list.';
  const { one: key, actions, act } = await open(context, { path: PATH, names: BODY, fields, words });
  context.onChange('key', context.reload, key.id);
  const revoke = async () => {
    if (!(await sure(`Revoke ${key.name}?`, 'Whoever has it is shut out at once. This cannot be taken back.', 'Revoke'))) return;
    await act('revoke')();
  };
  if (!key.is_revoked) actions.splice(1, 0, button('Revoke', revoke, { class: 'danger', id: 'do-revoke' }));
  return el('div', null, context.head(key.name, actions, el('p', null, code(key.id), ' ', state(key))), key.description && el('p', { class: 'lead' }, key.description),
  section('What its holder is', facts([['Ends', key.expires_at ? time(key.expires_at) : nothing('never')], ['Made', time(key.created_at)], ['Changed', time(key.updated_at)],
    ['Calls', el('a', { href: `#/executions?subject=${encodeURIComponent(`key:${key.id}`)}` }, 'Recorded calls')]]), json(key.claims ?? {})));
}

export async function server(context) {
  const [who, issuers, config, ready] = await Promise.all([whoami(), get('/api/issuers'),
    get('/api/config').catch(() => null), get('/health/ready').catch((problem) => problem)]);
  const fetchKeys = async () => { await post('/api/issuers/refresh-keys'); await context.reload(); };
  return el('div', null, context.head('Server'),
    section('Health', ready instanceof Error ? problemBox(ready) : facts([['Ready', badge('ready', 'good')], ['Notes', (ready.notes ?? []).join(', ')]])),
    section('You', facts([['Subject', code(who.subject)], ['Shown', who.means]]), json(who.claims)),
    section('Issuers whose tokens are taken', issuers.data.length > 0 ? [table(['Issuer', 'Keys', 'Fetched', 'State'], issuers.data.map((issuer) => [
      issuer.issuer, String(issuer.keys), time(issuer.fetched_at), issuer.degraded ? badge(issuer.last_error ?? 'degraded', 'bad') : badge('good', 'good')]), 'Issuers'),
    button('Fetch their keys now', fetchKeys, { id: 'do-fetch' })] : el('p', { class: 'faint' }, 'None: agents come with keys. The file given with --config names issuers.')),
    section('Configuration file', config ? [facts([['File', code(config.file)], ['In force', config.is_applied ? badge('yes', 'good') : badge('no', 'bad')], ['Applied', time(config.applied_at)],
      ['Waiting', config.waiting.join(', ')], ['Needs a restart', config.needs_restart.join(', ')]]),
    config.problems.length > 0 && el('ul', null, config.problems.map((problem) => el('li', null, problem)))] : el('p', { class: 'faint' }, 'The server follows none.')),
    section('API', el('p', null, el('a', { href: 'api/docs' }, 'Every request, as a page'))));
}
