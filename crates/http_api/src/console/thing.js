// What sources, groups, policies, labels and keys have in common: they are made, edited, switched and deleted.

import { ask, of, post, put, remove } from './api.js';
import { button, sure, to } from './dom.js';
import { editDialog, only } from './form.js';

/// Asks for a new one and shows it. `fields` may have to ask the server first.
export const maker = ({ screen, path, title, fields, value, label = 'Create', preview, then }) => async () => {
  const known = await fields(true);
  editDialog({
    title, label, value, fields: () => known, preview: preview && ((body) => preview(undefined, body)),
    async save(body) {
      const made = await post(path, body);
      then?.(made);
      location.hash = to(screen, made.id);
    },
  });
};

/// The field that only new ones have.
export const idField = { name: 'id', label: 'Id', help: 'For ever; made from the name if it is left out.' };

/// Reads one, with the buttons that change it. Whoever was not the first to save goes on from what is there now.
export async function open(context, { path, names, fields, words, end = 'Delete', preview }) {
  const at = of(path, context.id);
  const read = await ask('GET', at);
  const one = read.data;
  const edit = async () => {
    let { etag } = read;
    const known = await fields(false);
    editDialog({
      title: `Edit ${one.name}`, value: only(one, names), fields: () => known, preview: preview && ((body) => preview(one.id, body)),
      save: async (body) => { await put(at, body, etag); await context.reload(); },
      again: async () => {
        const now = await ask('GET', at);
        etag = now.etag;
        return only(now.data, names);
      },
    });
  };
  const act = (verb) => async () => { await post(`${at}/${verb}`, undefined, read.etag); await context.reload(); };
  const isOn = one.is_active ?? one.is_enabled;
  const flip = one.is_active === undefined ? ['Enable', 'Disable'][Number(isOn)] : ['Activate', 'Deactivate'][Number(isOn)];
  const drop = async () => {
    if (!(await sure(`${end} ${one.name}?`, words, end))) return;
    await remove(at, read.etag);
    location.hash = to(context.name);
  };
  const actions = [button('Edit', edit, { class: 'primary', id: 'do-edit' }),
    isOn !== undefined && button(flip, act(flip.toLowerCase()), { id: 'do-switch' }),
    button(end, drop, { class: 'danger', id: 'do-remove' })];
  return { one, actions, edit, at, act };
}
