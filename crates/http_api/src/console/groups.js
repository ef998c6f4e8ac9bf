// Groups: curated tools, selected + explicit − excluded.

import { get } from './api.js';
import { badge, button, code, count, el, empty, facts, json, link, nothing, section, table, time } from './dom.js';
import { effects } from './explain.js';
import { listScreen, search } from './list.js';
import { idField, maker, open } from './thing.js';

const PATH = '/api/groups';
const BODY = ['name', 'description', 'selector_mode', 'visibility', 'selectors', 'tools', 'excluded'];

const fields = (isNew) => [
  { name: 'name', label: 'Name', required: true },
  isNew && idField,
  { name: 'description', kind: 'area', label: 'Description', wide: true },
  { name: 'selectors', kind: 'rows', label: 'Selectors', one: 'selector', wide: true, help: 'Conditions on tools; what is left empty holds. `*` stands for anything.',
    fields: [
      { name: 'source', label: 'Source' }, { name: 'name', label: 'Name' }, { name: 'path', label: 'Path' }, { name: 'method', label: 'Method' },
      { name: 'required_tags', kind: 'words', label: 'With tags' }, { name: 'excluded_tags', kind: 'words', label: 'Without tags' },
      { name: 'required_labels', kind: 'words', label: 'With labels' },
      { name: 'kind', kind: 'select', label: 'Kind', options: ['tool', 'prompt', 'resource'] }] },
  { name: 'selector_mode', kind: 'select', label: 'A tool must match', options: [['all', 'all selectors'], ['any', 'any selector']] },
  { name: 'visibility', kind: 'select', label: 'Agents meet its tools', options: [['', 'as the tool says'], 'listed', 'searchable', 'hidden'] },
  { name: 'tools', kind: 'lines', label: 'Tools that belong to it anyway', help: 'Ids, one to a line.', wide: true },
  { name: 'excluded', kind: 'rows', label: 'Tools that never do', one: 'tool', wide: true,
    fields: [{ name: 'tool', label: 'Id', required: true }, { name: 'reason', label: 'Why' }] },
].filter(Boolean);

const preview = (id, body) => effects('groups', id, body);
const create = maker({ screen: 'groups', path: PATH, title: 'New group', fields, preview, value: { selector_mode: 'all', selectors: [], tools: [], excluded: [] } });

export function groups(context) {
  if (context.id !== undefined) return detail(context);
  return listScreen(context, {
    title: 'Groups', about: 'Curated tools. A policy grants groups, not tools.', path: PATH, kind: ['group', 'tool'],
    actions: [button('New group', create, { class: 'primary', 'data-new': '' })],
    filters: [search, { name: 'active', label: 'Switch', options: [['true', 'active'], ['false', 'inactive']] }],
    columns: [
      ['Group', (one) => [link('groups', one.id, one.name), el('br'), code(one.id)]],
      ['Description', (one) => el('div', { class: 'clip' }, one.description || nothing())],
      ['Tools', (one) => `${one.served_count} served of ${one.tool_count}`],
      ['State', (one) => (one.is_active ? badge('active', 'good') : badge('inactive'))],
    ],
    none: () => empty('There is no group yet. A group says which tools belong together, so that a policy can grant them.', button('New group', create, { class: 'primary' })),
  });
}

async function detail(context) {
  const words = 'The tools stay; the group is gone for good.';
  const [{ one: group, actions, edit, at }, policies] = await Promise.all([
    open(context, { path: PATH, names: BODY, fields, words, preview }), get('/api/policies', { group: context.id, limit: 200 })]);
  const members = await get(`${at}/tools`, { limit: 200 });
  context.onChange(['group', 'tool', 'policy', 'source'], context.reload);
  return el('div', null, context.head(group.name, actions, el('p', null, code(group.id), ' ', group.is_active ? badge('active', 'good') : badge('inactive'))),
  group.description && el('p', { class: 'lead' }, group.description),
  section('What it says', facts([
    ['A tool must match', group.selector_mode === 'any' ? 'any selector' : 'all selectors'], ['Agents meet its tools', group.visibility],
    ['Granted by', policies.data.length > 0 ? policies.data.map((policy) => [link('policies', policy.id, policy.name), ' ']) : nothing('no policy')],
    ['Changed', time(group.updated_at)]]),
  group.selectors.length > 0 && json(group.selectors),
  group.excluded.length > 0 && table(['Excluded', 'Why'], group.excluded.map((one) => [link('tools', one.tool), one.reason ?? '']), 'Excluded tools')),
  section(count(group.tool_count, 'tool', 'tools'), members.data.length > 0 ? table(['Tool', 'Source', 'Because', 'State'],
    members.data.map((tool) => [link('tools', tool.tool_id, tool.name), link('sources', tool.source_id), tool.is_explicit ? 'it is named' : 'it is selected',
      tool.is_served ? badge('served', 'good') : badge('not served')]), 'Tools of the group')
    : empty('No tool belongs to it. Add a selector, or name tools one by one.', button('Edit', edit)),
  members.next_cursor && el('p', { class: 'faint' }, 'The first 200 are shown.')));
}
