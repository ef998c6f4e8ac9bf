// The TypeScript SDK of the first generation, which knows the older era alone. Prints what it saw as one line of JSON.

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const { TOOLCRIB_URL, TOOLCRIB_KEY, FIXTURE_URL } = process.env;
const NAME = '@modelcontextprotocol/sdk';

async function connect(url, headers, capabilities = {}) {
    const client = new Client({ name: 'toolcrib-rig', version: '1' }, { capabilities });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    return client;
}

async function call(client, name, args, options) {
    return await client.callTool({ name, arguments: args }, undefined, options);
}

async function tools() {
    const client = await connect(TOOLCRIB_URL, { Authorization: `Bearer ${TOOLCRIB_KEY}` });
    const { tools } = await client.listTools();
    const search = await call(client, 'tool_search', { query: 'order pizzas' });
    const found = search.structuredContent.tools.map(tool => tool.name);
    const called = await call(client, 'get_order', { id: 7 });
    const order = { address: 'Piazza dell’Università 1', pizzas: ['Margherita'] };
    const executed = await call(client, 'execute_tool', { name: found[0], arguments: order });
    const era = client.transport.protocolVersion;
    await client.transport.terminateSession();
    await client.close();
    return {
        era,
        listed: tools.map(tool => tool.name),
        found,
        called: called.structuredContent,
        executed: executed.structuredContent,
    };
}

// The status that a key gets which is not known.
async function refused() {
    try {
        await connect(TOOLCRIB_URL, { Authorization: `Bearer ${TOOLCRIB_KEY}x` });
    } catch (error) {
        return error.code;
    }
}

async function server_speaks() {
    const client = await connect(FIXTURE_URL, {}, { elicitation: {} });
    const content = { username: 'ada', email: 'ada@example.com' };
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content }));
    const asked = await call(client, 'test_elicitation', { message: 'Who are you?' });
    const progress = [];
    const onprogress = step => progress.push(step.progress);
    await call(client, 'test_tool_with_progress', {}, { onprogress });
    const told = await told_of_change(client);
    await client.transport.terminateSession();
    await client.close();
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
const seen = { ...(await tools()), refused: await refused(), ...(await server_speaks()) };
console.log(JSON.stringify({ client: NAME, version, ...seen }));
