// How everything is: how much there is, what wants an admin's attention, and what happened last.

import { all, get } from './api.js';
import { line } from './activity.js';
import { badge, count, el, empty, link, section, showNodes, to } from './dom.js';
import { seen } from './live.js';

const tile = (name, number, label, note) => el('a', { class: 'tile', href: to(name), 'data-tile': name },
  el('strong', null, number.toLocaleString('en')), el('span', null, label), el('small', null, note));

export async function overview(context) {
  const [sources, groups, policies, keys, ready, config] = await Promise.all([
    all('/api/sources'), all('/api/groups'), all('/api/policies'), all('/api/keys'),
    get('/health/ready').catch((problem) => problem), get('/api/config').catch(() => null),
  ]);
  const sum = (name) => sources.reduce((total, source) => total + source.tools[name], 0);
  const active = (list) => list.filter((one) => one.is_active).length;
  const sick = sources.filter((source) => source.is_enabled && (source.health === 'degraded' || source.health === 'unhealthy'));
  const notes = [
    ...sick.map((source) => [badge(source.health, 'bad'), ' ', link('sources', source.id, source.name), ': ',
      source.last_sync_error?.message ?? 'its last refresh failed']),
    sum('waiting') > 0 && [badge('review', 'warn'), ' ', el('a', { href: '#/tools?review=waiting' }, count(sum('waiting'), 'tool waits', 'tools wait')), ' for a decision'],
    sum('with_findings') > 0 && [badge('findings', 'warn'), ' ', el('a', { href: '#/tools?finding=warning' }, count(sum('with_findings'), 'tool has', 'tools have')),
      ' something in its texts that nobody sees or should trust'],
    ...(config?.problems ?? []).map((problem) => [badge('configuration', 'bad'), ' ', problem]),
    ready instanceof Error && [badge('not ready', 'bad'), ' ', ready.message],
    ...(ready.notes ?? []).map((note) => [badge('note', 'warn'), ' ', note]),
    policies.length === 0 && sources.length > 0 && [badge('access', 'warn'), ' No policy grants anything yet: ', link('policies', undefined, 'define one')],
  ].filter(Boolean);
  const recent = el('ul', { class: 'events' });
  const counts = el('p', { class: 'faint', id: 'counts' });
  const draw = () => {
    counts.replaceChildren(`Since you opened the console: ${count(seen.changes, 'change', 'changes')}, ${count(seen.calls, 'call', 'calls')}, ${seen.failed} failed.`);
    const items = seen.items.slice(0, 10);
    showNodes(recent, items.map(line));
  };
  context.live(draw);
  context.onChange(['source', 'tool', 'group', 'policy', 'key'], context.reload);
  draw();
  return el('div', null, context.head('Overview'),
    sources.length === 0 && empty('There is no source yet. A source is an API, an MCP server or anything else that has tools.',
      el('a', { class: 'button primary', href: '#/sources?new' }, 'Register the first')),
    el('div', { class: 'tiles' },
      tile('sources', sources.length, 'sources', `${sources.filter((source) => source.health === 'healthy').length} healthy`),
      tile('tools', sum('total'), 'tools', `${sum('served').toLocaleString('en')} served`),
      tile('groups', groups.length, 'groups', `${active(groups)} active`),
      tile('policies', policies.length, 'policies', `${active(policies)} active`),
      tile('keys', keys.length, 'keys', `${keys.filter((key) => key.admin && !key.is_revoked).length} of admins`)),
    section('Wants attention', notes.length > 0 ? el('ul', { class: 'plain-list' }, notes.map((note) => el('li', null, note)))
      : el('p', { class: 'faint' }, 'Nothing: all is well.')),
    section('What happened last', counts, recent, el('p', null, link('activity', undefined, 'Everything, as it happens'))));
}
