// Policies: if all matchers match an agent's claims, the groups are granted.

import { all } from './api.js';
import { badge, button, code, el, empty, facts, link, nothing, section, table, time } from './dom.js';
import { effects } from './explain.js';
import { listScreen, search } from './list.js';
import { idField, maker, open } from './thing.js';

const PATH = '/api/policies';
const BODY = ['name', 'description', 'priority', 'matchers', 'groups', 'admin'];
const OPERATORS = ['equals', 'not_equals', 'contains', 'not_contains', 'matches', 'in', 'not_in', 'exists', 'not_exists'];

const fields = async (isNew) => [
  { name: 'name', label: 'Name', required: true },
  isNew && idField,
  { name: 'priority', kind: 'number', label: 'Priority', help: 'Order of explanation, highest first. It never changes what is granted.' },
  { name: 'description', kind: 'area', label: 'Description', wide: true },
  { name: 'matchers', kind: 'rows', label: 'Matchers', one: 'matcher', wide: true, help: 'All must match. A value is JSON if it can be read so, and a text otherwise.',
    fields: [
      { name: 'claim', label: 'Claim', required: true }, { name: 'operator', kind: 'select', label: 'Operator', options: OPERATORS },
      { name: 'value', kind: 'loose', label: 'Value' }, { name: 'missing', kind: 'check', label: 'a missing claim matches too' }] },
  { name: 'groups', kind: 'choices', label: 'Grants these groups', options: (await all('/api/groups')).map((group) => group.id), wide: true, missing: 'There is no group yet: make one first.' },
  { name: 'admin', kind: 'check', label: 'Makes an admin of whoever it matches', wide: true },
].filter(Boolean);

const preview = (id, body) => effects('policies', id, body);
const create = maker({ screen: 'policies', path: PATH, title: 'New policy', fields, preview, value: { matchers: [{ operator: 'equals' }], groups: [] } });

const matcher = (one) => [code(one.claim), ` ${one.operator.replace('_', ' ')} `, one.value !== undefined && code(JSON.stringify(one.value)), one.missing && ' or is missing'];

export function policies(context) {
  if (context.id !== undefined) return detail(context);
  return listScreen(context, {
    title: 'Policies', about: 'Who gets which groups. Nothing is granted unless a policy says so.', path: PATH, kind: 'policy',
    actions: [button('New policy', create, { class: 'primary', 'data-new': '' })],
    filters: [search, { name: 'group', label: 'Grants the group' }, { name: 'active', label: 'Switch', options: [['true', 'active'], ['false', 'inactive']] },
      { name: 'admin', label: 'Makes admins', options: [['true', 'yes'], ['false', 'no']] }],
    columns: [
      ['Policy', (one) => [link('policies', one.id, one.name), el('br'), code(one.id)]],
      ['If', (one) => one.matchers.map((each) => el('div', null, matcher(each)))],
      ['Grants', (one) => [(one.groups ?? []).map((group) => [link('groups', group), ' ']), one.admin && badge('admin', 'warn')]],
      ['State', (one) => (one.is_active ? badge('active', 'good') : badge('inactive'))],
    ],
    none: () => empty('There is no policy yet, so agents have no tools. A policy says: whoever has these claims gets these groups.', button('New policy', create, { class: 'primary' })),
  });
}

async function detail(context) {
  const words = 'Whoever has tools only because of it loses them at once.';
  const { one: policy, actions } = await open(context, { path: PATH, names: BODY, fields, words, preview });
  context.onChange('policy', context.reload, policy.id);
  return el('div', null, context.head(policy.name, actions, el('p', null, code(policy.id), ' ', policy.is_active ? badge('active', 'good') : badge('inactive'), policy.admin && [' ', badge('makes admins', 'warn')])),
  policy.description && el('p', { class: 'lead' }, policy.description),
  section('If all of this holds', table(['Claim', 'Operator', 'Value', 'If it is missing'], policy.matchers.map((one) => [code(one.claim), one.operator,
    one.value === undefined ? nothing() : code(JSON.stringify(one.value)), one.missing ? 'matches too' : 'does not match']), 'Matchers')),
  section('Then these are granted', facts([
    ['Groups', policy.groups?.length > 0 ? policy.groups.map((group) => [link('groups', group), ' ']) : nothing('none')],
    ['Priority', String(policy.priority ?? 0)], ['Changed', time(policy.updated_at)]])));
}
