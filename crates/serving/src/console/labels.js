// Labels: our admins' words on tools, which selectors can ask for.

import { ask, get, of, post, put, remove } from './api.js';
import { button, code, el, empty, facts, link, nothing, section, sure, table, time } from './dom.js';
import { editDialog, only } from './form.js';
import { listScreen, search } from './list.js';

const PATH = '/api/labels';
const BODY = ['name', 'description', 'colour'];

function dot(colour) {
  const made = el('span', { class: 'dot', 'aria-hidden': 'true' });
  made.style.backgroundColor = colour;
  return made;
}

const fields = (isNew) => () => [
  { name: 'name', label: 'Name', required: true },
  isNew && { name: 'id', label: 'Id', help: 'For ever; made from the name if it is left out.' },
  { name: 'colour', kind: 'colour', label: 'Colour' },
  { name: 'description', kind: 'area', label: 'Description', wide: true },
].filter(Boolean);

function create() {
  editDialog({
    title: 'New label', label: 'Create', fields: fields(true), value: {},
    async save(body) {
      const made = await post(PATH, body);
      location.hash = `#/labels/${encodeURIComponent(made.id)}`;
    },
  });
}

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
  const path = of(PATH, context.id);
  const [{ data: label, etag }, tools] = await Promise.all([ask('GET', path), get('/api/tools', { label: context.id, limit: 200 })]);
  context.onChange('label', context.reload, label.id);
  context.onChange('tool', context.reload);
  const edit = () => editDialog({
    title: `Edit ${label.name}`, fields: fields(false), value: only(label, BODY),
    save: async (body) => { await put(path, body, etag); await context.reload(); },
    again: async () => only(await get(path), BODY),
  });
  const drop = async () => {
    if (!(await sure(`Delete ${label.name}?`, 'It is taken off all tools.', 'Delete'))) return;
    await remove(path, etag);
    location.hash = '#/labels';
  };
  return el('div', null, context.head(label.name, [
    button('Edit', edit, { class: 'primary', id: 'do-edit' }), button('Delete', drop, { class: 'danger', id: 'do-remove' }),
  ], el('p', null, dot(label.colour ?? '#808080'), ' ', code(label.id))),
  label.description && el('p', { class: 'lead' }, label.description),
  section('Tools with it', tools.data.length > 0 ? table(['Tool', 'Source'], tools.data.map((tool) => [link('tools', tool.id, tool.name), link('sources', tool.source_id)]), 'Tools')
    : empty('No tool has it. Open a tool and press Labels.')), facts([['Changed', time(label.updated_at)]]));
}
