//! The replies of the echo server, independent of the transport.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{EchoServerArgs, HostileBehavior};

const FLOOD_NOTIFICATIONS: usize = 100_000;
const REPEATED_NAMES: usize = 10_000;
const MANY_TOOLS: usize = 100_000;

pub(super) enum EchoReply {
    Message(Vec<u8>),
    /// The beginning of a message and its long remainder, which was generated in advance.
    Prepared(Vec<u8>, &'static str),
    /// A change notification, then the message.
    AfterNotification(Vec<u8>),
    /// This number of change notifications, then the message.
    Flood(usize, Vec<u8>),
    /// The beginning of a message, 10 GB of filler, and its end.
    Large(Vec<u8>, Vec<u8>),
    /// One byte per second.
    Slowly(Vec<u8>),
    /// A part of a message, and no more after that.
    Broken(Vec<u8>),
    /// The client must initialize a new session.
    SessionExpired,
    /// No reply, although the client waits for one.
    Silence,
    /// No reply, because the message was no request.
    NotARequest,
}

pub(super) const LIST_CHANGED: &[u8] =
    br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

pub(super) fn reply_to(orders: &EchoServerArgs, asked: &Value) -> EchoReply {
    let method = asked["method"].as_str().unwrap_or_default();
    if asked.get("id").is_none() || method.is_empty() {
        return EchoReply::NotARequest;
    }
    let (id, harm) = (&asked["id"], orders.active_harm());
    let good = || result_message(id, method, orders, asked);
    match (harm, method) {
        (Some(HostileBehavior::HangsOnInitialize), "initialize" | "server/discover") => {
            EchoReply::Silence
        }
        (Some(HostileBehavior::HangsOnInitialize), _) => EchoReply::SessionExpired,
        (Some(HostileBehavior::DiesInMidCall), "tools/call") => {
            let mut part = good();
            part.truncate(part.len() / 2);
            EchoReply::Broken(part)
        }
        (Some(HostileBehavior::FloodsNotifications), "tools/call" | "tools/list") => {
            EchoReply::Flood(FLOOD_NOTIFICATIONS, good())
        }
        // A server with a false tool list also reports a change with every answer.
        (
            Some(
                HostileBehavior::RepeatsNames
                | HostileBehavior::EndlessCursor
                | HostileBehavior::ManyTools,
            ),
            "tools/call",
        ) => EchoReply::AfterNotification(good()),
        (
            Some(manner @ (HostileBehavior::RepeatsNames | HostileBehavior::ManyTools)),
            "tools/list",
        ) => {
            let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
            EchoReply::Prepared(begin.into_bytes(), prepared_tool_list(manner))
        }
        (Some(HostileBehavior::EndlessCursor), "tools/list") => {
            let page = asked["params"]["cursor"].as_str().and_then(|page| page.parse().ok());
            let next: u64 = page.unwrap_or(0) + 1;
            let tools = json!([tool_json(&format!("page-{next}"))]);
            let result = json!({"tools": tools, "nextCursor": next.to_string()});
            let page = json!({"jsonrpc": "2.0", "id": id, "result": result});
            EchoReply::Message(page.to_string().into_bytes())
        }
        (Some(HostileBehavior::LargeAnswer), "tools/call" | "tools/list") => {
            let (begin, end) =
                (format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":""#), r#""}}"#);
            EchoReply::Large(begin.into_bytes(), end.into())
        }
        (Some(HostileBehavior::InvalidUtf8), "tools/call" | "tools/list") => {
            let mut bytes =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":""#).into_bytes();
            bytes.extend_from_slice(b"\xff\xfe\"}}");
            EchoReply::Message(bytes)
        }
        (Some(HostileBehavior::SlowLoris), "tools/call" | "tools/list") => {
            EchoReply::Slowly(good())
        }
        _ => EchoReply::Message(good()),
    }
}

/// A result and the end of its message. It is generated in advance, so that the CPU time for this is not measured.
pub(super) fn prepared_tool_list(manner: HostileBehavior) -> &'static str {
    static RESULT: OnceLock<String> = OnceLock::new();
    RESULT.get_or_init(|| {
        let tools: Vec<Value> = match manner {
            HostileBehavior::RepeatsNames => {
                (0..REPEATED_NAMES).map(|_| tool_json("again")).collect()
            }
            HostileBehavior::ManyTools => {
                (0..MANY_TOOLS).map(|number| tool_json(&format!("t{number}"))).collect()
            }
            _ => Vec::new(),
        };
        format!("{}}}", json!({"tools": tools}))
    })
}

fn tool_json(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn result_message(id: &Value, method: &str, orders: &EchoServerArgs, asked: &Value) -> Vec<u8> {
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
