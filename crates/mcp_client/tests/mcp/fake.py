"""An MCP server for tests, that does what no decent one would. The first argument says in what manner."""
import json
import os
import subprocess
import sys
import threading
import time

manner = sys.argv[1] if len(sys.argv) > 1 else "legacy"
lock = threading.Lock()
waiting = {}


def say(message):
    raw(json.dumps(message).encode() + b"\n")


def raw(line):
    with lock:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def result(id, value):
    say({"jsonrpc": "2.0", "id": id, "result": value})


def error(id, code, message):
    say({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": {"kept": [1]}}})


def tell(method, params=None):
    say({"jsonrpc": "2.0", "method": method, "params": params or {}})


def text(value):
    return {"content": [{"type": "text", "text": value}], "x-unknown": {"b": 1, "a": 2.50}}


CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}, "logging": {}}


def tools(params):
    cursor = params.get("cursor")
    if manner == "endless":
        return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
    if manner == "circle":
        return {"tools": [], "nextCursor": "b" if cursor == "a" else "a"}
    if manner in ("many", "very-many"):
        count = 20_000 if manner == "many" else 100_000
        return {"tools": [{"name": f"t{n}", "inputSchema": {}} for n in range(count)]}
    if manner == "pages":
        page = int(cursor or 0)
        names = [f"p{page}-{n}" for n in range(3)] + ["again"]
        more = {"nextCursor": str(page + 1)} if page < 4 else {}
        return {"tools": [{"name": n, "z": 1, "a": None} for n in names] + [7, {"title": "x"}], "ttlMs": 5, **more}
    schema = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"$ref": "http://never.invalid/"}}}
    return {"tools": [{"name": "echo", "vendor": {"y": 1, "x": [1.10]}, "inputSchema": schema}]}


def call(id, params, token):
    name, arguments = params["name"], params.get("arguments", {})
    if name == "echo":
        result(id, {**text("ok"), "structuredContent": arguments})
    elif name == "params":
        result(id, {"params": params})
    elif name == "environment":
        result(id, {"environment": dict(os.environ), "arguments": sys.argv[2:], "folder": os.getcwd(),
                    "group": os.getpgrp() == os.getpid()})
    elif name == "pid":
        result(id, {"pid": os.getpid()})
    elif name == "slow":
        threading.Timer(arguments["seconds"], lambda: result(id, text(arguments["word"]))).start()
    elif name == "never":
        waiting["never"] = id
    elif name == "cancelled":
        result(id, {"cancelled": waiting.get("cancelled"), "was": waiting.get("never")})
    elif name == "progress":
        tell("notifications/progress", {"progressToken": 987654, "progress": 9})
        tell("notifications/progress", {"progressToken": str(token), "progress": 8})
        for step in range(arguments["steps"]):
            tell("notifications/progress", {"progressToken": token, "progress": step, "more": [step]})
        tell("notifications/message", {"level": "info", "data": "done"})
        result(id, text("ok"))
    elif name == "ask":
        def answered(answer):
            result(id, {"answer": answer})
        waiting["q"] = answered
        say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "name?"}})
    elif name == "odd":
        # Answers with ids of other kinds, to nothing, and twice.
        for other in (str(id), float(id) + 0.5, None, id + 1000, [id], {"id": id}, True):
            say({"jsonrpc": "2.0", "id": other, "result": text("wrong")})
        result(id, text("right"))
        result(id, text("twice"))
    elif name == "error":
        error(id, -32042, "no")
    elif name == "die":
        sys.stderr.write("one\ntwo\nsecret\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "children":
        inner = "import os,subprocess,sys,time; p=subprocess.Popen([sys.executable,'-c','import time; time.sleep(600)']); print(p.pid,flush=True); time.sleep(600)"
        ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        child = subprocess.Popen([sys.executable, "-c", ignore + inner], stdout=subprocess.PIPE)
        grandchild = int(child.stdout.readline())
        result(id, {"pids": [os.getpid(), child.pid, grandchild]})
    elif name == "asks_too_much":
        for number in range(arguments["count"]):
            say({"jsonrpc": "2.0", "id": f"r{number}", "method": "roots/list"})
            tell("notifications/progress", {"progressToken": token, "progress": number})
            tell("notifications/message", {"level": "info", "data": "x" * 100})
        result(id, text("ok"))
    elif name == "flood":
        for _ in range(arguments["count"]):
            raw(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n')
        result(id, text("ok"))
    elif name == "blank":
        raw(b"\n" * arguments["count"])
        result(id, text("ok"))
    elif name == "garbage":
        for _ in range(arguments["count"]):
            raw(b"Server running on stdio\n")
            raw(b"\xff\xfe\x00 not text\n")
        result(id, text("ok"))
    elif name == "unreadable":
        raw(b'{"jsonrpc":"2.0","id":%d,"result":{"a":1,"a":2}}\n' % id)
    elif name == "no_text":
        raw(b'{"jsonrpc":"2.0","id":%d,"result":{"a":"\xff"}}\n' % id)
    elif name == "too_long":
        result(id, text("x" * 200_000))
    elif name == "too_many":
        result(id, text("x" * 66_000) | {"_meta": {"all": [{}] * 1_000}})
    elif name == "pieces":
        for byte in json.dumps({"jsonrpc": "2.0", "id": id, "result": text(arguments["word"])}, ensure_ascii=False).encode():
            raw(bytes([byte]))
        raw(b"\n")
    elif name == "long":
        raw(b"x" * arguments["bytes"] + b"\n")
        result(id, text("ok"))
    elif name == "endless":
        while True:
            raw(b"x" * 65536)
    elif name == "stderr":
        for number in range(arguments["lines"]):
            sys.stderr.write(f"line {number} \x1b[31m\n")
        sys.stderr.flush()
        result(id, text("ok"))
    elif name == "deaf":
        result(id, text("ok"))
        time.sleep(600)
    else:
        error(id, -32602, "no such tool")


def listen(id):
    tag = {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}
    tell("notifications/subscriptions/acknowledged", tag)
    tell("notifications/tools/list_changed", tag)
    tell("notifications/resources/updated", {"uri": "test://a", **tag})


def serve(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    meta = params.get("_meta", {})
    if method is None:
        answered = waiting.pop(id, None)
        return answered and answered(message.get("result", message.get("error")))
    if method == "notifications/cancelled":
        waiting["cancelled"] = params["requestId"]
    if id is None:
        return
    if manner == "hang":
        return
    if method == "server/discover" and manner == "dies-on-discover":
        os._exit(1)
    if method == "server/discover" and manner == "silent":
        return
    if manner == "modern-but-slow" and method == "server/discover" and not waiting.setdefault("asked", []):
        return waiting["asked"].append(id)
    if manner == "modern-but-slow" and method == "initialize":
        return error(id, -32022, "unsupported version")
    if method == "server/discover" and manner in ("modern", "both", "modern-but-slow"):
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        return result(id, {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, "instructions": "be nice"})
    if method == "initialize" and manner != "modern":
        version = "1999-01-01" if manner == "old" else "2025-06-18"
        return result(id, {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": {"name": "fake"}})
    if method == "tools/list":
        return result(id, tools(params))
    if method == "tools/call":
        return call(id, params, meta.get("progressToken"))
    if method == "subscriptions/listen":
        return listen(id)
    if method == "ping":
        return result(id, {})
    error(id, -32601, "no such method")


if manner == "exits":
    sys.stderr.write("no reason\n")
    sys.stderr.flush()
    os._exit(7)
for line in sys.stdin.buffer:
    serve(json.loads(line))
if manner == "stays":
    time.sleep(600)
