// The API: one credential, problems in plain words, tags of what was read, pages and the stream of what happens.

const BASE = new URL('..', import.meta.url);
const STORE = 'toolcrib-key';
let key = sessionStorage.getItem(STORE);
let refused = () => {};

/// What went wrong, as the server says it.
export class Problem extends Error {
  constructor(status, said) {
    super(words(status, said));
    Object.assign(this, { status, code: said.code, errors: said.errors, findings: said.findings });
  }
}

function words(status, said) {
  if (status === 412) return 'Somebody else has changed this since you opened it.';
  if (said.code === 'forbidden') return 'This key is not an admin’s: it may use tools, and change nothing.';
  if (status === 401) return 'This key is not known, or no longer: it may have been revoked or have expired.';
  if (said.code === 'tool_has_findings') return 'Something was found in its texts. Say that you have seen it, if it is to be served all the same.';
  const detail = said.detail ?? `The server answered ${status}.`;
  return detail.charAt(0).toUpperCase() + detail.slice(1) + (/[.!?]$/.test(detail) ? '' : '.');
}

export const hasKey = () => key !== null;
export const onRefused = (work) => { refused = work; };

/// Keeps a key for as long as this tab is open.
export function keep(given) {
  key = given;
  sessionStorage.setItem(STORE, given);
}

export function forget() {
  key = null;
  sessionStorage.removeItem(STORE);
}

function address(path, query) {
  const url = new URL(`.${path}`, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, value);
  }
  return url;
}

async function send(method, path, { query, body, etag, headers, signal } = {}) {
  const given = { ...headers };
  if (key !== null) given.Authorization = `Bearer ${key}`;
  if (etag) given['If-Match'] = etag;
  if (body !== undefined) given['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(address(path, query), {
      method, headers: given, signal, cache: 'no-store', credentials: 'omit', redirect: 'error',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { detail: 'The server does not answer. Is it still running?' });
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  const problem = new Problem(response.status, said);
  if (response.status === 401 && key !== null) refused(problem);
  throw problem;
}

/// Sends a request; the answer's `etag` stands beside its JSON.
export async function ask(method, path, given) {
  const response = await send(method, path, given);
  return { data: await response.json(), etag: response.headers.get('ETag') };
}

export const get = async (path, query) => (await ask('GET', path, { query })).data;
export const post = async (path, body, etag) => (await ask('POST', path, { body, etag })).data;
export const put = async (path, body, etag) => (await ask('PUT', path, { body, etag })).data;
export const remove = async (path, etag) => (await ask('DELETE', path, { etag })).data;
export const of = (path, id, rest = '') => `${path}/${encodeURIComponent(id)}${rest}`;

/// Everything of a list, up to a bound that no screen wants more than.
export async function all(path, query, most = 1000) {
  const found = [];
  let cursor;
  do {
    const page = await get(path, { ...query, limit: 200, cursor });
    found.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor && found.length < most);
  return found;
}

/// Who the key is of.
export const whoami = () => get('/api/whoami');

/// Server-sent events, one by one. `EventSource` cannot send a credential.
export async function* stream(path, query, lastId, signal) {
  const headers = lastId ? { 'Last-Event-ID': lastId } : {};
  const response = await send('GET', path, { query, headers, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { name: 'message', data: '' };
      for (const line of block.split('\n')) {
        const at = line.indexOf(': ');
        if (at < 1) continue;
        const [field, said] = [line.slice(0, at), line.slice(at + 2)];
        if (field === 'event') event.name = said;
        else if (field === 'id') event.id = said;
        else if (field === 'data') event.data += said;
      }
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}
