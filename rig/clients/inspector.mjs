// The command line of the Inspector, which is started for every request. Prints what it saw as one line of JSON.
//
// Its argument is the era that the Inspector is told to speak: `modern` or `legacy`.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const { TOOLCRIB_URL, TOOLCRIB_KEY } = process.env;
const NAME = '@modelcontextprotocol/inspector';
const LAUNCHER = `node_modules/${NAME}/clients/launcher/build/index.js`;
const era = process.argv[2];

function inspect(key, ...options) {
    const header = `Authorization: Bearer ${key}`;
    const common = ['--cli', TOOLCRIB_URL, '--transport', 'http', '--protocol-era', era, '--header', header];
    const words = [LAUNCHER, ...common, '--stored-auth-only', '--format', 'json', ...options];
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

// The status that a key gets which is not known.
function refused() {
    const { status, stderr } = inspect(`${TOOLCRIB_KEY}x`, '--method', 'tools/list');
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
