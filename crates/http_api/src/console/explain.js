// Who has which tool and why; and trying a tool as somebody with some claims.

import { all, ask, get, of, post } from './api.js';
import { badge, button, code, count, el, empty, json, jsonText, link, nothing, problemBox, section, table, to } from './dom.js';
import { editor } from './form.js';

/// Identities to begin with: the claims of keys, and those that a policy asks for.
async function identities() {
  const [keys, policies] = await Promise.all([all('/api/keys', { revoked: false }), all('/api/policies', { active: true })]);
  const ofKeys = keys.filter((key) => Object.keys(key.claims ?? {}).length > 0).map((key) => [`the key ${key.id}`, key.claims]);
  const isPlain = (policy) => policy.matchers.every((matcher) => matcher.operator === 'equals' && /^[\w-]+$/.test(matcher.claim));
  const ofPolicies = policies.filter(isPlain).map((policy) =>
    [`whom ${policy.id} matches`, Object.fromEntries(policy.matchers.map((matcher) => [matcher.claim, matcher.value]))]);
  const found = new Map();
  for (const one of [...ofPolicies, ...ofKeys]) found.set(JSON.stringify(one[1]), one);
  return [...found.values()];
}

/// What a change would do to those identities. What has no id yet gets one for the question.
export async function effects(kind, id, body) {
  const all = await identities();
  const known = all.slice(0, 100);
  const whose = all.length > known.length ? `the first ${known.length} of ${all.length} identities` : count(known.length, 'identity', 'identities');
  const proposed = { ...body, id: id ?? (body.id || 'console-preview') };
  const asked = { identities: known.map(([name, claims]) => ({ name, claims })), [kind]: [proposed] };
  const { data } = await post('/api/access/what-if', asked);
  const part = (label, tools) => tools.length > 0 && el('div', null, label, ' ', tools.slice(0, 20).map((tool) => [code(tool), ' ']), tools.length > 20 && `and ${tools.length - 20} more`);
  const lines = data.map((effect, at) => {
    const parts = [part('gains', effect.gained), part('loses', effect.lost), part('calls otherwise', effect.renamed.map((one) => one.after)),
      effect.before.admin !== effect.after.admin && el('div', null, badge(effect.after.admin ? 'becomes an admin' : 'is no admin any more', 'bad'))].filter(Boolean);
    return parts.length > 0 && el('li', null, el('strong', null, known[at][0]), parts);
  }).filter(Boolean);
  return el('div', { class: 'card' }, el('p', null, lines.length > 0 ? `Of ${whose} that keys and policies name:`
    : `Nothing, for ${whose} that keys and policies name.`), el('ul', { class: 'plain-list' }, lines));
}

function claimsField(known, label, first) {
  const input = el('textarea', { id: 'claims', class: 'json', rows: 5, spellcheck: 'false', value: jsonText(first ?? {}) });
  const pick = el('select', { id: 'like', onchange: () => { if (pick.value !== '') input.value = jsonText(known[Number(pick.value)][1]); } },
    el('option', { value: '' }, 'other claims'), known.map(([name], at) => el('option', { value: String(at), selected: first !== undefined && at === 0 }, name)));
  const read = () => {
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(`The claims are not JSON: ${error.message}.`);
    }
  };
  const node = [el('div', { class: 'field' }, el('label', { for: 'like' }, label), pick),
    el('div', { class: 'field' }, el('label', { for: 'claims' }, 'Claims'), input)];
  return { node, read, pick };
}

export async function explain(context) {
  const known = await identities();
  const claims = claimsField(known, 'Like', known[0]?.[1]);
  const tool = el('input', { id: 'tool', type: 'text', value: context.params.get('tool') ?? '', autocomplete: 'off', spellcheck: 'false' });
  const at = el('input', { id: 'at', type: 'text', placeholder: 'now', autocomplete: 'off' });
  const result = el('div', { id: 'explained', 'aria-live': 'polite' });
  const run = async () => {
    try {
      const body = { claims: claims.read() };
      if (tool.value.trim()) body.tool = tool.value.trim();
      if (at.value.trim()) body.at = at.value.trim();
      result.replaceChildren(explained(await post('/api/access/explain', body), (id) => { tool.value = id; run(); }));
    } catch (problem) {
      result.replaceChildren(problemBox(problem));
    }
  };
  return el('div', null, context.head('Explain'), el('p', { class: 'lead' }, 'Which tools somebody has, and why, or why not.'),
    el('form', { class: 'card form', onsubmit: (event) => { event.preventDefault(); run(); } }, claims.node,
      el('div', { class: 'field' }, el('label', { for: 'tool' }, 'Only this tool'), tool, el('small', null, 'An id or a name. Left empty: everything.')),
      el('div', { class: 'field' }, el('label', { for: 'at' }, 'At'), at, el('small', null, 'A date, a time or a position of the journal.')),
      el('button', { type: 'submit', class: 'primary' }, 'Explain')), result);
}

const yes = (holds, word) => badge(word ?? (holds ? 'yes' : 'no'), holds ? 'good' : '');

function explained(answer, ask) {
  const verdict = (matcher) => el('div', null, yes(matcher.matches, matcher.matches ? '✓' : '✗'), ' ', code(matcher.claim), ` ${matcher.operator.replace('_', ' ')} `,
    matcher.value !== undefined && code(JSON.stringify(matcher.value)), el('span', { class: 'faint' }, ` – ${matcher.why}`));
  return el('div', null,
    el('p', { class: 'lead', id: 'summary' }, `This identity has ${count(answer.tool_count, 'tool', 'tools')}`, answer.admin && ', and a policy makes it an admin', '.'),
    (answer.tools ?? []).map((one) => section(one.tool, el('p', null, yes(one.granted, one.granted ? 'granted' : 'not granted'), ' ', one.why),
      one.stopped_by.length > 1 && el('ul', null, one.stopped_by.map((stop) => el('li', null, code(stop.code), ' ', stop.message))),
      one.groups.length > 0 && table(['Group', 'Member', 'Decided by', 'Granted by'], one.groups.map((group) => [link('groups', group.id), yes(group.member),
        group.decided_by.replace('_', ' '), group.granted_by.length > 0 ? group.granted_by.map((policy) => [link('policies', policy), ' ']) : nothing('nobody')]), 'Groups of the tool'))),
    answer.has && section('Tools it has', answer.has.length > 0 ? table(['Name', 'Tool', 'Met', ''], answer.has.map((held) => [held.name, link('tools', held.tool), held.visibility,
      button('Why?', () => ask(held.tool), { class: 'plain' })]), 'Tools') : empty('None. No active policy that matches grants a group with tools in it.')),
    section('Policies', answer.policies.length > 0 ? table(['Policy', 'Grants', 'Groups', 'Matchers'], answer.policies.map((policy) => [link('policies', policy.id, policy.name),
      [yes(policy.grants), !policy.is_active && [' ', badge('inactive')]], policy.groups.map((group) => [link('groups', group), ' ']), policy.matchers.map(verdict)]), 'Policies')
      : empty('There is no policy.')),
    answer.groups.length > 0 && section('Groups that are granted', table(['Group', 'Tools', 'Granted by'], answer.groups.map((group) => [link('groups', group.id, group.name ?? group.id),
      String(group.tool_count), group.granted_by.map((policy) => [link('policies', policy), ' '])]), 'Groups')));
}

// Trying a tool.

function resolved(schema, whole) {
  let [found, steps] = [schema ?? {}, 0];
  while (typeof found.$ref === 'string' && found.$ref.startsWith('#/') && (steps += 1) < 9) {
    found = found.$ref.slice(2).split('/').reduce((at, part) => at?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], whole) ?? {};
  }
  return found;
}

/// A field for each argument that the schema names.
function fieldsOf(schema) {
  return Object.entries(schema?.properties ?? {}).map(([name, given]) => {
    const part = resolved(given, schema);
    const type = [part.type].flat().find((word) => word !== 'null');
    const field = { name, label: name, help: part.description, required: (schema.required ?? []).includes(name), wide: true };
    if (Array.isArray(part.enum)) return { ...field, kind: 'select', options: [...(field.required ? [] : ['']), ...part.enum.map(String)] };
    if (type === 'boolean') return { ...field, kind: 'select', options: [...(field.required ? [] : ['']), 'true', 'false'] };
    if (type === 'integer') return { ...field, kind: 'number' };
    if (type === 'number') return { ...field, kind: 'number', step: 'any' };
    if (type === 'string') return { ...field, kind: 'text' };
    if (type === 'array' && resolved(part.items, schema).type === 'string') {
      return { ...field, kind: 'lines', optional: !field.required, help: `${field.help ?? ''} One to a line.`.trim() };
    }
    return { ...field, kind: 'json', rows: 3, placeholder: type === 'array' ? '[…]' : undefined };
  });
}

/// What a form can only say as a text, in the type that the schema wants.
function typed(body, schema) {
  return Object.fromEntries(Object.entries(body).map(([name, value]) => {
    const part = resolved(schema?.properties?.[name], schema);
    if ([part.type].flat().includes('boolean') && (value === 'true' || value === 'false')) return [name, value === 'true'];
    const one = Array.isArray(part.enum) && typeof value === 'string' ? part.enum.find((word) => String(word) === value) : undefined;
    return [name, one ?? value];
  }));
}

export async function attempt(context) {
  if (context.id === undefined) return pick(context);
  const [tool, known] = await Promise.all([get(of('/api/tools', context.id)), identities()]);
  const can = await whoHas(tool.id, known);
  const order = [...known].sort((one, other) => can.has(other[0]) - can.has(one[0]));
  const claims = claimsField(order, 'As', order[0]?.[1]);
  const own = el('input', { type: 'checkbox', id: 'own', onchange: () => { who.hidden = own.checked; } });
  const who = el('div', null, claims.node);
  const edited = editor(fieldsOf(tool.input_schema), {});
  const result = el('div', { id: 'result', 'aria-live': 'polite' });
  const run = (dryRun) => async () => {
    result.replaceChildren(el('p', { class: 'faint' }, dryRun ? 'Writing the request…' : 'Calling…'));
    const start = performance.now();
    try {
      const body = { arguments: typed(edited.read(), tool.input_schema), dry_run: dryRun };
      if (!own.checked) body.claims = claims.read();
      const { data } = await ask('POST', of('/api/tools', tool.id, '/try'), { body });
      result.replaceChildren(data.request ? requestOf(data.request) : outcomeOf(data.outcome, performance.now() - start));
    } catch (problem) {
      result.replaceChildren(problemBox(problem), problem.status === 404 && el('p', null, el('a', { href: `#/explain?tool=${encodeURIComponent(tool.id)}` }, 'Explain why')));
    }
  };
  const call = button('Call', run(false), { class: 'primary', id: 'do-call' });
  return el('div', null, context.head(`Try ${tool.name}`, [], el('p', null, link('tools', tool.id), ' ', !tool.is_served && badge('not served', 'warn'))),
    el('p', { class: 'description' }, tool.description),
    el('form', { class: 'card form', onsubmit: (event) => { event.preventDefault(); call.click(); } },
      fieldsOf(tool.input_schema).length === 0 && el('p', { class: 'faint' }, 'It takes no arguments.'), edited.node, edited.toggle,
      el('fieldset', null, el('legend', null, 'As whom'), el('p', { class: 'choice' }, own, ' ', el('label', { for: 'own' }, 'As I am, with my own claims')), who),
      el('div', { class: 'actions' }, call, tool.execution.mode === 'sync_http' && button('Show the request only', run(true), { id: 'do-dry' })),
      el('small', null, 'A call is a real call of the upstream, and is recorded under your name.')), result);
}

/// Which of the identities have the tool.
async function whoHas(tool, known) {
  const asked = known.slice(0, 20).map(async ([name, claims]) => {
    const answer = await post('/api/access/explain', { claims, tool }).catch(() => null);
    return answer?.tools?.[0]?.granted ? name : null;
  });
  return new Set(await Promise.all(asked));
}

async function pick(context) {
  const tools = await get('/api/tools', { kind: 'tool', limit: 200 });
  const shown = el('ul', { class: 'plain-list picks' });
  const input = el('input', { id: 'pick', type: 'search', 'data-search': '', autocomplete: 'off', oninput: () => draw() });
  let turn = 0;
  const draw = async () => {
    const mine = (turn += 1);
    const found = input.value === '' ? tools : await get('/api/tools', { kind: 'tool', limit: 50, q: input.value });
    if (mine !== turn) return;
    shown.replaceChildren(...found.data.map((tool) => el('li', null, el('a', { href: to('try', tool.id) }, tool.name), ' ', code(tool.id), el('div', { class: 'faint clip' }, tool.description))));
  };
  draw();
  return el('div', null, context.head('Try a tool'), tools.data.length === 0
    ? empty('There is no tool yet: they come with sources.', el('a', { class: 'button primary', href: to('sources') }, 'Sources'))
    : [el('div', { class: 'filters', role: 'search' }, el('div', { class: 'field' }, el('label', { for: 'pick' }, 'Which tool'), input)), el('section', { class: 'card' }, shown)]);
}

const requestOf = (request) => section('What would be sent, without credentials',
  el('pre', { class: 'json', tabindex: '0', id: 'request' }, `${request.method} ${request.url}\n${Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`).join('\n')}${request.body ? `\n\n${request.body}` : ''}`));

function outcomeOf(outcome, took) {
  const isFine = outcome.status === 'completed';
  return el('section', { class: `card ${isFine ? 'good' : 'bad'}` }, el('h2', null, isFine ? 'Result' : 'It failed'),
    el('p', null, badge(outcome.status, isFine ? 'good' : 'bad'), ` ${outcome.execution_time_ms} ms there, ${Math.round(took)} ms until here`, outcome.upstream_status && `, HTTP ${outcome.upstream_status}`),
    outcome.error && el('div', { class: 'problem' }, el('p', null, outcome.error.message), el('p', null, code(outcome.error.code), outcome.error.retryable && ' – it may work later')),
    outcome.result !== undefined && json(outcome.result), (outcome.content ?? []).map(content));
}

function content(part) {
  if (part.type === 'text') return el('pre', { class: 'json', tabindex: '0' }, part.text);
  if (part.type === 'image' && /^image\/(png|jpeg|gif|webp)$/.test(part.mimeType) && /^[\w+/=]+$/.test(part.data)) {
    return el('img', { src: `data:${part.mimeType};base64,${part.data}`, alt: 'A picture that the tool gave' });
  }
  return json(part);
}
