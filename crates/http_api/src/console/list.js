// A list: searched, filtered, page by page, and kept up to date while it is looked at.

import { get } from './api.js';
import { button, el, empty, problemBox, table } from './dom.js';

/// One screen with a list. `filters` stand in the address, so that a filtered list can be linked to.
export function listScreen(context, { title, about, path, kind, columns, filters = [], none, actions = [], query = {}, onLoad }) {
  const asked = Object.fromEntries(context.params);
  const place = el('div', { 'aria-busy': 'true' });
  const state = el('p', { class: 'faint', role: 'status' });
  let [found, cursor, turn] = [[], null, 0];

  const draw = () => {
    const isFiltered = Object.values(asked).some(Boolean);
    const rows = found.map((item) => columns.map(([, cell]) => cell(item)));
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
    place.replaceChildren(found.length > 0 ? table(columns.map(([head]) => head), rows, title)
      : isFiltered ? empty('Nothing fits this search.', button('Show everything', () => { location.hash = `#/${context.name}`; }))
        : none());
    if (cursor) place.append(button('Show more', () => load(true), { class: 'more' }));
    if (focused) [...place.querySelectorAll('a')].find((a) => a.getAttribute('href') === focused)?.focus();
    place.removeAttribute('aria-busy');
    state.replaceChildren(found.length === 0 ? '' : `${found.length} ${cursor ? 'shown, and there are more' : 'in all'}`);
  };

  async function load(isMore) {
    const mine = (turn += 1);
    const given = { ...query, ...asked, cursor: isMore ? cursor : undefined };
    given.limit = isMore ? 50 : Math.min(200, Math.max(50, found.length));
    try {
      const page = await get(path, given);
      if (mine !== turn) return;
      found = isMore ? [...found, ...page.data] : page.data;
      cursor = page.next_cursor;
      onLoad?.(found);
      draw();
    } catch (problem) {
      if (mine === turn) place.replaceChildren(problemBox(problem));
    }
  }

  const change = (name, value) => {
    asked[name] = value;
    const said = new URLSearchParams(Object.entries(asked).filter(([, given]) => given)).toString();
    history.replaceState(null, '', `#/${context.name}${said && `?${said}`}`);
    return load(false);
  };
  const controls = filters.map(({ name, label, options, type, isWide }) => {
    const id = `filter-${name}`;
    const given = { id, value: asked[name] ?? '', autocomplete: 'off', spellcheck: 'false' };
    let waiting;
    const input = options
      ? el('select', { id, onchange: () => change(name, input.value) }, el('option', { value: '' }, 'any'),
        options.map((option) => {
          const [word, said] = Array.isArray(option) ? option : [option, option];
          return el('option', { value: word, selected: word === asked[name] }, said);
        }))
      : el('input', { ...given, type: type ?? 'search', oninput: () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => change(name, input.value.trim()), 200);
      } });
    if (name === 'q') input.dataset.search = '';
    return el('div', { class: `field ${isWide ? 'search' : ''}` }, el('label', { for: id }, label), input);
  });
  // Whoever has paged on keeps the place.
  context.onChange(kind, () => (found.length > 200 ? state.replaceChildren('Something has changed: search again to see it') : load(false)));
  load(false);
  return el('div', null, context.head(title, actions), about && el('p', { class: 'lead' }, about),
    el('div', { class: 'filters', role: 'search' }, controls, state), place);
}

export const search = { name: 'q', label: 'Search by id or name', isWide: true };
