// The TypeScript client of the second generation. Prints what it saw as one line of JSON.
//
// Its first argument is how the era is found out: `auto` asks the server first. Without being told, it would be
// `legacy`. The second is how the server is reached: `http` or `stdio`.

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const { TOOLCRIB_URL, TOOLCRIB_PROGRAM, TOOLCRIB_JOURNAL, TOOLCRIB_KEY, FIXTURE_URL } = process.env;
const NAME = '@modelcontextprotocol/client';
const [mode, over] = process.argv.slice(2);

function door(key) {
    if (over === 'stdio') {
        const env = { ...getDefaultEnvironment(), TOOLCRIB_KEY: key };
        const args = ['stdio', '--journal', TOOLCRIB_JOURNAL];
        return new StdioClientTransport({ command: TOOLCRIB_PROGRAM, args, env, stderr: 'ignore' });
    }
    const headers = { Authorization: `Bearer ${key}` };
    return new StreamableHTTPClientTransport(new URL(TOOLCRIB_URL), { requestInit: { headers } });
}

async function connect(transport, options = {}) {
    const client = new Client(
        { name: 'toolcrib-rig', version: '1' },
        { versionNegotiation: { mode }, ...options },
    );
    await client.connect(transport);
    return client;
}

async function call(client, name, args, options) {
    return await client.callTool({ name, arguments: args }, options);
}

// In the older era a session is left behind otherwise.
async function close(client) {
    await client.transport.terminateSession?.();
    await client.close();
}

async function tools() {
    const client = await connect(door(TOOLCRIB_KEY));
    const { tools } = await client.listTools();
    const search = await call(client, 'tool_search', { query: 'order pizzas' });
    const found = search.structuredContent.tools.map(tool => tool.name);
    const called = await call(client, 'get_order', { id: 7 });
    const order = { address: 'Piazza dell’Università 1', pizzas: ['Margherita'] };
    const executed = await call(client, 'execute_tool', { name: found[0], arguments: order });
    const era = client.getNegotiatedProtocolVersion();
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
        return over === 'http' ? error.status : true;
    }
}

async function server_speaks() {
    let told = false;
    const onChanged = (error, tools) => (told = !error && tools.length > 0);
    const options = { capabilities: { elicitation: {} }, listChanged: { tools: { onChanged } } };
    const client = await connect(new StreamableHTTPClientTransport(new URL(FIXTURE_URL)), options);
    const content = { username: 'ada', email: 'ada@example.com' };
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content }));
    const asked = await call(client, 'test_elicitation', { message: 'Who are you?' });
    const progress = [];
    const onprogress = step => progress.push(step.progress);
    await call(client, 'test_tool_with_progress', {}, { onprogress });
    // The stream may not be open yet, and what happened before is told to nobody.
    for (let turn = 0; turn < 20 && !told; turn++) {
        await call(client, 'test_trigger_tool_change', {});
        await sleep(500);
    }
    await close(client);
    return { asked: asked.content[0].text, progress, told };
}

const { version } = JSON.parse(readFileSync(`node_modules/${NAME}/package.json`));
const heard = over === 'http' ? await server_speaks() : {};
const seen = { ...(await tools()), refused: await refused(), ...heard };
console.log(JSON.stringify({ client: NAME, version, ...seen }));
