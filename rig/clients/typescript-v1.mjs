// The TypeScript SDK of the first generation, which knows the older era alone. Prints what it saw as one line of JSON.
//
// Its second argument is how the server is reached: `http` or `stdio`.

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const { TOOLCRIB_URL, TOOLCRIB_PROGRAM, TOOLCRIB_JOURNAL, TOOLCRIB_KEY, FIXTURE_URL } = process.env;
const NAME = '@modelcontextprotocol/sdk';
const over = process.argv[3];

function door(key) {
    if (over === 'stdio') {
        const env = { ...getDefaultEnvironment(), TOOLCRIB_KEY: key };
        const args = ['stdio', '--journal', TOOLCRIB_JOURNAL];
        return new StdioClientTransport({ command: TOOLCRIB_PROGRAM, args, env, stderr: 'ignore' });
    }
    const headers = { Authorization: `Bearer ${key}` };
    return new StreamableHTTPClientTransport(new URL(TOOLCRIB_URL), { requestInit: { headers } });
}

async function connect(transport, capabilities = {}) {
    const client = new Client({ name: 'toolcrib-rig', version: '1' }, { capabilities });
    await client.connect(transport);
    return client;
}

// The client tells its transport what it agreed on with the server, and nobody else.
function note_era(transport) {
    const tell = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = version => {
        transport.era = version;
        tell?.(version);
    };
    return transport;
}

// A session is left behind otherwise.
async function close(client) {
    await client.transport.terminateSession?.();
    await client.close();
}

async function call(client, name, args, options) {
    return await client.callTool({ name, arguments: args }, undefined, options);
}

async function tools() {
    const client = await connect(note_era(door(TOOLCRIB_KEY)));
    const { tools } = await client.listTools();
    const search = await call(client, 'tool_search', { query: 'order pizzas' });
    const found = search.structuredContent.tools.map(tool => tool.name);
    const called = await call(client, 'get_order', { id: 7 });
    const order = { address: 'Piazza dell’Università 1', pizzas: ['Margherita'] };
    const executed = await call(client, 'execute_tool', { name: found[0], arguments: order });
    const { era } = client.transport;
    await close(client);
    return {
        era,
        listed: tools.map(tool => tool.name),
        found,
        called: called.structuredContent,
        executed: executed.structuredContent,
    };
}

// What a key gets that is not known: a status, or nothing at all.
async function refused() {
    try {
        await connect(door(`${TOOLCRIB_KEY}x`));
        return false;
    } catch (error) {
        return over === 'http' ? error.code : true;
    }
}

async function server_speaks() {
    const client = await connect(new StreamableHTTPClientTransport(new URL(FIXTURE_URL)), { elicitation: {} });
    const content = { username: 'ada', email: 'ada@example.com' };
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content }));
    const asked = await call(client, 'test_elicitation', { message: 'Who are you?' });
    const progress = [];
    const onprogress = step => progress.push(step.progress);
    await call(client, 'test_tool_with_progress', {}, { onprogress });
    const told = await told_of_change(client);
    await close(client);
    return { asked: asked.content[0].text, progress, told };
}

// The stream may not be open yet, and what happened before is told to nobody.
async function told_of_change(client) {
    let told = false;
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => (told = true));
    for (let turn = 0; turn < 100 && !told; turn++) {
        await call(client, 'test_trigger_tool_change', {});
        await sleep(100);
    }
    return told;
}

const { version } = JSON.parse(readFileSync(`node_modules/${NAME}/package.json`));
const heard = over === 'http' ? await server_speaks() : {};
const seen = { ...(await tools()), refused: await refused(), ...heard };
console.log(JSON.stringify({ client: NAME, version, ...seen }));
