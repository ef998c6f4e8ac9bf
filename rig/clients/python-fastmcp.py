"""The client of FastMCP. Prints what it saw as one line of JSON.

Its first argument is how the era is found out: `auto` asks the server first, `legacy` does not. The second is how the
server is reached: `http` or `stdio`.
"""

import asyncio
import json
import os
import sys
from importlib.metadata import version

import anyio
import httpx2
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

TOOLCRIB_URL, TOOLCRIB_KEY = os.environ["TOOLCRIB_URL"], os.environ["TOOLCRIB_KEY"]
PROGRAM, JOURNAL = os.environ["TOOLCRIB_PROGRAM"], os.environ["TOOLCRIB_JOURNAL"]
MODE, OVER = sys.argv[1:]


def door(key, statuses):
    """To the server, with a key; the status of every answer is noted."""

    async def note(response):
        statuses.append(response.status_code)

    def noting(**options):
        return httpx2.AsyncClient(**options, event_hooks={"response": [note]})

    if OVER == "stdio":
        env = {"TOOLCRIB_KEY": key}
        return StdioTransport(PROGRAM, ["stdio", "--journal", JOURNAL], env=env, keep_alive=False)
    return StreamableHttpTransport(TOOLCRIB_URL, auth=key, httpx_client_factory=noting)


async def tools():
    async with Client(door(TOOLCRIB_KEY, []), mode=MODE) as client:
        listed = await client.list_tools()
        search = await client.call_tool("tool_search", {"query": "order pizzas"})
        found = [tool["name"] for tool in search.structured_content["tools"]]
        called = await client.call_tool("get_order", {"id": 7})
        order = {"address": "Piazza dell’Università 1", "pizzas": ["Margherita"]}
        executed = await client.call_tool("execute_tool", {"name": found[0], "arguments": order})
        return {
            "era": client.session.protocol_version,
            "listed": [tool.name for tool in listed],
            "found": found,
            "called": called.structured_content,
            "executed": executed.structured_content,
        }


async def refused():
    """What a key gets that is not known: a status, which the client does not tell, or nothing at all."""
    statuses = []
    try:
        async with Client(door(f"{TOOLCRIB_KEY}x", statuses), mode=MODE):
            return False
    except Exception:
        return statuses[-1] if OVER == "http" else True


class Listener(MessageHandler):
    def __init__(self):
        self.told = anyio.Event()

    async def on_tool_list_changed(self, _message):
        self.told.set()


async def server_speaks():
    progress, listener = [], Listener()

    async def answer(_message, form, _question, _context):
        return form(username="ada", email="ada@example.com")

    async def on_progress(done, _total, _message):
        progress.append(int(done))

    options = {
        "mode": MODE,
        "elicitation_handler": answer,
        "progress_handler": on_progress,
        "message_handler": listener,
    }
    async with Client(os.environ["FIXTURE_URL"], **options) as client:
        asked = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        await client.call_tool("test_tool_with_progress", {})
        seen = {"asked": asked.content[0].text, "progress": progress}
        # In the newer era it has no way to listen.
        if client.session.protocol_version != "2026-07-28":
            seen["told"] = await told_of_change(client, listener.told)
        return seen


async def told_of_change(client, told):
    """The stream may not be open yet, and what happened before is told to nobody."""
    for _turn in range(100):
        await client.call_tool("test_trigger_tool_change", {})
        with anyio.move_on_after(0.1):
            await told.wait()
            return True
    return False


async def main():
    seen = {"client": "fastmcp", "version": version("fastmcp")}
    seen |= await tools()
    seen |= {"refused": await refused()}
    if OVER == "http":
        seen |= await server_speaks()
    print(json.dumps(seen))


asyncio.run(main())
