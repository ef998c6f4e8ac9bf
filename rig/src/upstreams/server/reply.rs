//! The replies of the echo server, independent of the transport.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{Manner, Orders};

const FLOOD: usize = 100_000;
const REPEATED: usize = 10_000;
const MANY: usize = 100_000;

pub(super) enum Reply {
    Message(Vec<u8>),
    /// The beginning of a message and its long remainder, which was generated in advance.
    Prepared(Vec<u8>, &'static str),
    /// A change notification, then the message.
    Told(Vec<u8>),
    /// This number of change notifications, then the message.
    Flood(usize, Vec<u8>),
    /// The beginning of a message, 10 GB of filler, and its end.
    Large(Vec<u8>, Vec<u8>),
    /// One byte per second.
    Slowly(Vec<u8>),
    /// A part of a message, and no more after that.
    Broken(Vec<u8>),
    /// The client must initialize a new session.
    Anew,
    /// No reply, although the client waits for one.
    Never,
    /// No reply, because the message was no request.
    None,
}

pub(super) const CHANGED: &[u8] =
    br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

pub(super) fn reply(orders: &Orders, asked: &Value) -> Reply {
    let method = asked["method"].as_str().unwrap_or_default();
    if asked.get("id").is_none() || method.is_empty() {
        return Reply::None;
    }
    let (id, harm) = (&asked["id"], orders.harm());
    let good = || message(id, method, orders, asked);
    match (harm, method) {
        (Some(Manner::HangsOnInitialize), "initialize" | "server/discover") => Reply::Never,
        (Some(Manner::HangsOnInitialize), _) => Reply::Anew,
        (Some(Manner::DiesInMidCall), "tools/call") => {
            let mut part = good();
            part.truncate(part.len() / 2);
            Reply::Broken(part)
        }
        (Some(Manner::FloodsNotifications), "tools/call" | "tools/list") => {
            Reply::Flood(FLOOD, good())
        }
        // A server with a false tool list also reports a change with every answer.
        (Some(Manner::RepeatsNames | Manner::EndlessCursor | Manner::ManyTools), "tools/call") => {
            Reply::Told(good())
        }
        (Some(manner @ (Manner::RepeatsNames | Manner::ManyTools)), "tools/list") => {
            let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
            Reply::Prepared(begin.into_bytes(), prepared(manner))
        }
        (Some(Manner::EndlessCursor), "tools/list") => {
            let page = asked["params"]["cursor"].as_str().and_then(|page| page.parse().ok());
            let next: u64 = page.unwrap_or(0) + 1;
            let tools = json!([tool(&format!("page-{next}"))]);
            let result = json!({"tools": tools, "nextCursor": next.to_string()});
            let page = json!({"jsonrpc": "2.0", "id": id, "result": result});
            Reply::Message(page.to_string().into_bytes())
        }
        (Some(Manner::LargeAnswer), "tools/call" | "tools/list") => {
            let (begin, end) =
                (format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":""#), r#""}}"#);
            Reply::Large(begin.into_bytes(), end.into())
        }
        (Some(Manner::InvalidUtf8), "tools/call" | "tools/list") => {
            let mut bytes =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":""#).into_bytes();
            bytes.extend_from_slice(b"\xff\xfe\"}}");
            Reply::Message(bytes)
        }
        (Some(Manner::SlowLoris), "tools/call" | "tools/list") => Reply::Slowly(good()),
        _ => Reply::Message(good()),
    }
}

/// A result and the end of its message. It is generated in advance, so that the CPU time for this is not measured.
pub(super) fn prepared(manner: Manner) -> &'static str {
    static RESULT: OnceLock<String> = OnceLock::new();
    RESULT.get_or_init(|| {
        let tools: Vec<Value> = match manner {
            Manner::RepeatsNames => (0..REPEATED).map(|_| tool("again")).collect(),
            Manner::ManyTools => (0..MANY).map(|number| tool(&format!("t{number}"))).collect(),
            _ => Vec::new(),
        };
        format!("{}}}", json!({"tools": tools}))
    })
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn message(id: &Value, method: &str, orders: &Orders, asked: &Value) -> Vec<u8> {
    let name = &orders.name;
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": name, "version": "1.0.0"},
        }),
        "ping" => json!({}),
        "tools/list" => {
            let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
            let tool =
                |what: &str| json!({"name": format!("{name}_{what}"), "inputSchema": schema});
            json!({"tools": [tool("echo"), tool("shout"), tool("reverse")]})
        }
        "tools/call" => {
            let text = asked["params"]["arguments"]["text"].as_str().unwrap_or_default();
            let text = match asked["params"]["name"].as_str().unwrap_or_default() {
                name if name.ends_with("_shout") => text.to_uppercase(),
                name if name.ends_with("_reverse") => text.chars().rev().collect(),
                _ => text.to_owned(),
            };
            json!({"content": [{"type": "text", "text": text}]})
        }
        _ => {
            let error = json!({"code": -32601, "message": "there is no such method"});
            return json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into_bytes();
        }
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string().into_bytes()
}
