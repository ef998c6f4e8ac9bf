// The command line of the Inspector, which is started for every request. Prints what it saw as one line of JSON.
//
// Its first argument is the era that the Inspector is told to speak: `modern` or `legacy`. The second is how the server
// is reached: `http` or `stdio`.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const { TOOLCRIB_URL, TOOLCRIB_PROGRAM, TOOLCRIB_JOURNAL, TOOLCRIB_KEY } = process.env;
const NAME = '@modelcontextprotocol/inspector';
const LAUNCHER = `node_modules/${NAME}/clients/launcher/build/index.js`;
const [era, over] = process.argv.slice(2);

function door(key) {
    if (over === 'stdio') {
        return ['-e', `TOOLCRIB_KEY=${key}`, '--', TOOLCRIB_PROGRAM, 'stdio', '--journal', TOOLCRIB_JOURNAL];
    }
    return [TOOLCRIB_URL, '--transport', 'http', '--stored-auth-only', '--header', `Authorization: Bearer ${key}`];
}

function inspect(key, ...options) {
    const words = [LAUNCHER, '--cli', '--protocol-era', era, '--format', 'json', ...options, ...door(key)];
    return spawnSync(process.execPath, words, { encoding: 'utf8', timeout: 30_000 });
}

function result(...options) {
    const { status, stdout, stderr } = inspect(TOOLCRIB_KEY, ...options);
    if (status !== 0) {
        throw new Error(`exit code ${status}: ${stdout}${stderr}`);
    }
    return JSON.parse(stdout).result;
}

function call(name, args) {
    const words = ['--method', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args)];
    return result(...words);
}

// What the Inspector ends with when it should have logged in.
const AUTHORISATION_NEEDED = 3;

// What a key gets that is not known: a status, or nothing at all.
function refused() {
    const { status, stderr } = inspect(`${TOOLCRIB_KEY}x`, '--method', 'tools/list');
    if (over === 'stdio') {
        return status !== 0;
    }
    const message = JSON.parse(stderr).error.message;
    return status === AUTHORISATION_NEEDED && message.includes('401') ? 401 : message;
}

// Strictly: a schema that some model would not take is an error.
const { tools } = result('--method', 'tools/list', '--strict');
const found = call('tool_search', { query: 'order pizzas' }).structuredContent.tools.map(tool => tool.name);
const called = call('get_order', { id: 7 });
const order = { address: 'Piazza dell’Università 1', pizzas: ['Margherita'] };
const executed = call('execute_tool', { name: found[0], arguments: order });
const seen = {
    client: NAME,
    version: JSON.parse(readFileSync(`node_modules/${NAME}/package.json`)).version,
    // It does not say; only in the newer era do servers say who they are in every result.
    era: 'io.modelcontextprotocol/serverInfo' in called._meta ? '2026-07-28' : '2025-11-25',
    listed: tools.map(tool => tool.name),
    found,
    called: called.structuredContent,
    executed: executed.structuredContent,
    refused: refused(),
};
console.log(JSON.stringify(seen));
