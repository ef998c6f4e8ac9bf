"""The Python SDK. Prints what it saw as one line of JSON.

Its first argument is how the era is found out: `auto` asks the server first, `legacy` does not. The second is how the
server is reached: `http` or `stdio`.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, ToolListChangedNotification

TOOLCRIB_URL, TOOLCRIB_KEY = os.environ["TOOLCRIB_URL"], os.environ["TOOLCRIB_KEY"]
PROGRAM, JOURNAL = os.environ["TOOLCRIB_PROGRAM"], os.environ["TOOLCRIB_JOURNAL"]
MODE, OVER = sys.argv[1:]


@asynccontextmanager
async def connect(key, statuses):
    """To the server, with a key; the status of every answer is noted."""

    async def note(response):
        statuses.append(response.status_code)

    if OVER == "stdio":
        env = {"TOOLCRIB_KEY": key}
        program = StdioServerParameters(command=PROGRAM, args=["stdio", "--journal", JOURNAL], env=env)
        async with Client(program, mode=MODE) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, event_hooks={"response": [note]}) as http:
        transport = streamable_http_client(TOOLCRIB_URL, http_client=http)
        async with Client(transport, mode=MODE) as client:
            yield client


async def tools():
    async with connect(TOOLCRIB_KEY, []) as client:
        listed = await client.list_tools()
        search = await client.call_tool("tool_search", {"query": "order pizzas"})
        found = [tool["name"] for tool in search.structured_content["tools"]]
        called = await client.call_tool("get_order", {"id": 7})
        order = {"address": "Piazza dell’Università 1", "pizzas": ["Margherita"]}
        executed = await client.call_tool("execute_tool", {"name": found[0], "arguments": order})
        return {
            "era": client.protocol_version,
            "listed": [tool.name for tool in listed.tools],
            "found": found,
            "called": called.structured_content,
            "executed": executed.structured_content,
        }


async def refused():
    """What a key gets that is not known: a status, which the SDK does not tell, or nothing at all."""
    statuses = []
    try:
        async with connect(f"{TOOLCRIB_KEY}x", statuses):
            return False
    except Exception:
        return statuses[-1] if OVER == "http" else True


async def server_speaks():
    progress, told = [], anyio.Event()

    async def answer(_context, _question):
        return ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})

    async def on_progress(done, _total, _message):
        progress.append(int(done))

    async def on_message(message):
        if isinstance(message, ToolListChangedNotification):
            told.set()

    options = {"mode": MODE, "elicitation_callback": answer, "message_handler": on_message}
    async with Client(os.environ["FIXTURE_URL"], **options) as client:
        asked = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        await client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)
        if client.protocol_version == "2026-07-28":
            is_told = await told_by_listening(client)
        else:
            is_told = await told_of_change(client, told)
        return {"asked": asked.content[0].text, "progress": progress, "told": is_told}


async def told_by_listening(client):
    async with client.listen(tools_list_changed=True) as changes:
        await client.call_tool("test_trigger_tool_change", {})
        with anyio.move_on_after(10):
            async for _change in changes:
                return True
    return False


async def told_of_change(client, told):
    """The stream may not be open yet, and what happened before is told to nobody."""
    for _turn in range(100):
        await client.call_tool("test_trigger_tool_change", {})
        with anyio.move_on_after(0.1):
            await told.wait()
            return True
    return False


async def main():
    seen = {"client": "mcp", "version": version("mcp")}
    seen |= await tools()
    seen |= {"refused": await refused()}
    if OVER == "http":
        seen |= await server_speaks()
    print(json.dumps(seen))


asyncio.run(main())
