// Labels: our admins' words on tools, which selectors can ask for.

import { get } from './api.js';
import { button, code, el, empty, facts, link, nothing, section, table, time } from './dom.js';
import { listScreen, search } from './list.js';
import { idField, maker, open } from './thing.js';

const PATH = '/api/labels';
const BODY = ['name', 'description', 'colour'];

function dot(colour) {
  const made = el('span', { class: 'dot', 'aria-hidden': 'true' });
  made.style.backgroundColor = colour;
  return made;
}

const fields = (isNew) => [
  { name: 'name', label: 'Name', required: true },
  isNew && idField,
  { name: 'colour', kind: 'colour', label: 'Colour' },
  { name: 'description', kind: 'area', label: 'Description', wide: true },
].filter(Boolean);

const create = maker({ screen: 'labels', path: PATH, title: 'New label', fields, value: {} });

export function labels(context) {
  if (context.id !== undefined) return detail(context);
  return listScreen(context, {
    title: 'Labels', about: 'Your own words on tools. A group can select tools by them.', path: PATH, kind: 'label',
    actions: [button('New label', create, { class: 'primary', 'data-new': '' })], filters: [search],
    columns: [
      ['Label', (one) => [dot(one.colour ?? '#808080'), ' ', link('labels', one.id, one.name), el('br'), code(one.id)]],
      ['Description', (one) => one.description || nothing()],
      ['Changed', (one) => time(one.updated_at)],
    ],
    none: () => empty('There is no label yet. Make one, and put it on tools.', button('New label', create, { class: 'primary' })),
  });
}

async function detail(context) {
  const [{ one: label, actions }, tools] = await Promise.all([
    open(context, { path: PATH, names: BODY, fields, words: 'It is taken off all tools.' }), get('/api/tools', { label: context.id, limit: 200 })]);
  context.onChange('label', context.reload, label.id);
  context.onChange('tool', context.reload);
  return el('div', null, context.head(label.name, actions, el('p', null, dot(label.colour ?? '#808080'), ' ', code(label.id))),
  label.description && el('p', { class: 'lead' }, label.description),
  section('Tools with it', tools.data.length > 0 ? table(['Tool', 'Source'], tools.data.map((tool) => [link('tools', tool.id, tool.name), link('sources', tool.source_id)]), 'Tools')
    : empty('No tool has it. Open a tool and press Labels.')), facts([['Changed', time(label.updated_at)]]));
}
