// Tools: what they are, what was found in their texts, what waits for a decision, and what an admin says instead.

import { all, ask, get, of, post, put } from './api.js';
import { badge, button, code, count, el, empty, facts, json, jsonText, link, nothing, problemBox, section, table, time, to } from './dom.js';
import { editDialog } from './form.js';
import { listScreen, search } from './list.js';
import { picture } from './picture.js';

const PATH = '/api/tools';
export const severity = (word) => badge(word, { critical: 'bad', warning: 'warn', note: '' }[word]);

const state = (tool) => [
  tool.is_served ? badge('served', 'good') : badge('not served'),
  !tool.is_enabled && badge('off'), tool.status === 'deprecated' && badge('gone at the source', 'warn'),
  tool.review !== 'approved' && badge(tool.review, 'warn'),
  tool.findings.some((found) => found.severity !== 'note') && badge('findings', 'warn'),
].filter(Boolean).flatMap((one) => [one, ' ']);

export function tools(context) {
  if (context.id !== undefined) return detail(context);
  return listScreen(context, {
    title: 'Tools', about: 'What sources offer. Agents get those that a policy grants them.', path: PATH, kind: ['tool', 'source'],
    filters: [search, { name: 'source', label: 'Source' }, { name: 'kind', label: 'Kind', options: ['tool', 'prompt', 'resource'] },
      { name: 'review', label: 'Review', options: ['approved', 'waiting', 'rejected'] },
      { name: 'finding', label: 'Findings', options: [['note', 'any'], ['warning', 'warnings'], ['critical', 'critical']] },
      { name: 'enabled', label: 'Switch', options: [['true', 'on'], ['false', 'off']] },
      { name: 'label', label: 'Label' }, { name: 'tag', label: 'Tag' }],
    columns: [
      ['Tool', (tool) => [link('tools', tool.id, tool.name), el('br'), code(tool.id)]],
      ['Description', (tool) => el('div', { class: 'clip' }, tool.description)],
      ['Labels', (tool) => tool.labels.map((label) => [link('labels', label), ' '])],
      ['State', state],
    ],
    none: () => empty('There is no tool yet: they come with sources.', el('a', { class: 'button primary', href: to('sources') }, 'Sources')),
  });
}

async function detail(context) {
  const path = of(PATH, context.id);
  const [{ data: tool, etag }, diff, labels] = await Promise.all([ask('GET', path), get(`${path}/diff`), all('/api/labels')]);
  context.onChange('tool', context.reload, tool.id);
  context.onChange('source', context.reload, tool.source_id);
  const act = (verb, body) => async () => { await post(`${path}/${verb}`, body, etag); await context.reload(); };
  const isTool = tool.kind === 'tool';
  const override = () => editDialog({
    title: `What is said of ${tool.name} instead`, value: { ...tool.overridden }, help: 'What is left empty is as the source says.',
    fields: () => [
      { name: 'name', label: 'Name', none: null }, { name: 'description', kind: 'area', rows: 5, label: 'Description', none: null, wide: true },
      { name: 'visibility', kind: 'select', label: 'Agents meet it', none: null, options: [['', 'as its source says'], 'listed', 'searchable', 'hidden'] },
      { name: 'required_scopes', kind: 'words', label: 'Required scopes', none: null },
      { name: 'audience', label: 'Whom its tokens are for', none: null },
      { name: 'projection', label: 'Part of its JSON (JMESPath)', none: null },
      { name: 'max_result_bytes', kind: 'number', min: 1024, label: 'Bytes of text at once', none: null },
      { name: 'limit', kind: 'json', rows: 2, label: 'Calls of it (JSON)', placeholder: '{"per_minute": 5}', none: null }],
    save: async (body) => { await ask('PATCH', path, { body, etag }); await context.reload(); },
  });
  const relabel = () => editDialog({
    title: `Labels of ${tool.name}`, value: { labels: tool.labels },
    fields: () => [{ name: 'labels', kind: 'choices', label: 'Labels', options: labels.map((label) => label.id), missing: 'There is no label yet.' }],
    save: async (body) => { await put(`${path}/labels`, body, etag); await context.reload(); },
  });
  const actions = [
    isTool && el('a', { class: 'button primary', href: to('try', tool.id) }, 'Try it'),
    button(tool.is_enabled ? 'Disable' : 'Enable', act(tool.is_enabled ? 'disable' : 'enable'), { id: 'do-switch' }),
    button('Override', override, { id: 'do-override' }), button('Labels', relabel, { id: 'do-label' }),
  ];
  return el('div', null, context.head(tool.name, actions, el('p', null, code(tool.id), ' of ', link('sources', tool.source_id), ' ', state(tool))),
    section('Description', el('p', { class: 'description', id: 'description' }, tool.description || nothing('None.')),
      facts([
        ['Request', tool.path && `${tool.method} ${tool.path}`], ['Mode', tool.execution.mode],
        ['Tags', tool.tags.length > 0 && tool.tags.map((tag) => [badge(tag), ' '])],
        ['Labels', tool.labels.length > 0 && tool.labels.map((label) => [link('labels', label), ' '])],
        ['Calls', tool.execution_count !== undefined && el('a', { href: `#/executions?tool=${encodeURIComponent(tool.id)}` },
          `${count(tool.execution_count, 'call', 'calls')}, ${tool.error_count} failed`)],
        ['Last error', tool.last_error], ['Version', tool.version], ['Last seen', time(tool.last_seen_at)],
      ])),
    tool.findings.length > 0 && section('Found in its texts', table(['How bad', 'What', 'Where', 'Check'],
      tool.findings.map((found) => [severity(found.severity), found.what, code(found.at), code(found.check)]), 'Findings')),
    review(context, tool, diff, act),
    tool.execution.mode === 'workflow' && await workflow(path),
    Object.keys(tool.overridden).some((name) => tool.overridden[name] !== null && tool.overridden[name] !== undefined) &&
      section('What an admin says instead', json(tool.overridden)),
    tool.input_schema && section('Arguments', json(tool.input_schema)),
    tool.output_schema && section('Results', json(tool.output_schema)),
    section('How a call is carried out', json(tool.execution)));
}

const shown = (value) => (value === null ? nothing('not there') : el('pre', { class: 'json' }, typeof value === 'string' ? value : jsonText(value)));

/// What differs between what is served and what was last seen, and the decision about it.
function review(context, tool, diff, act) {
  if (diff.changes.length === 0 && diff.review === 'approved') return null;
  const needs = diff.findings.some((found) => found.severity !== 'note');
  const seenIt = el('input', { type: 'checkbox', id: 'despite' });
  const reason = el('input', { type: 'text', id: 'reason' });
  const failed = el('div');
  const decide = (verb, body) => async () => {
    try {
      await act(verb, body())();
    } catch (problem) {
      failed.replaceChildren(problemBox(problem));
    }
  };
  const { fingerprint } = diff;
  return section(diff.review === 'waiting' ? 'Waits for a decision' : 'Last seen at the source',
    el('p', null, diff.served_fingerprint ? 'Agents get the version on the left until the one on the right is approved.' : 'No version of this tool is served yet.'),
    table(['Field', 'Served', 'Last seen'], diff.changes.map((change) => [code(change.field), shown(change.before), shown(change.after)]), 'Differences'),
    failed,
    diff.review !== 'approved' && el('div', { class: 'decide' },
      needs && el('p', null, seenIt, ' ', el('label', { for: 'despite' }, 'I have seen what was found in its texts, and approve it all the same')),
      button('Approve', decide('approve', () => ({ fingerprint, despite_findings: seenIt.checked })), { class: 'primary', id: 'do-approve' }),
      diff.review !== 'rejected' && [el('label', { for: 'reason' }, 'Reason'), reason,
        button('Reject', decide('reject', () => ({ fingerprint, reason: reason.value })), { class: 'danger', id: 'do-reject' })]));
}

function stepOf({ depth, name, what }) {
  const made = el('li', null, el('strong', null, name), ' ', what);
  made.style.marginLeft = `${Math.min(depth, 8) * 1.2}rem`;
  return made;
}

async function workflow(path) {
  try {
    const plan = await get(`${path}/workflow`);
    return section('Workflow', picture(plan.mermaid),
      el('ol', { class: 'steps' }, plan.steps.map(stepOf)),
      el('p', null, 'Calls ', plan.tools.map((tool) => [code(tool), ' '])),
      el('details', null, el('summary', null, 'As Mermaid'), el('pre', { class: 'json' }, plan.mermaid)));
  } catch (problem) {
    return section('Workflow', problemBox(problem));
  }
}
