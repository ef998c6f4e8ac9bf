//! What a custom tool, prompt or resource does when it is used. The manifest contains all of it, so a call does exactly
//! what the admin reviewed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CustomCommand, CustomMessage, FixedAnswer, PromptArgument};
use crate::{HttpRequest, McpPrimitive};

/// What is carried out. A tool that sends a request is none of these: it is like any other that does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CustomWork {
    /// A tool that always answers the same.
    Answer(FixedAnswer),
    /// A tool that runs a program.
    Command(CustomCommand),
    /// A prompt.
    Prompt {
        /// What is filled in.
        arguments: Vec<PromptArgument>,
        /// What is said in turn.
        messages: Vec<CustomMessage>,
    },
    /// A resource.
    Resource {
        /// Its address.
        uri: Box<str>,
        /// What it holds.
        holds: CustomHolds,
    },
    /// Resources whose addresses are alike.
    Template {
        /// Their addresses (RFC 6570, level 1).
        uri_template: Box<str>,
        /// What they hold.
        holds: CustomHolds,
        /// What is proposed for the names in an address.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        values: BTreeMap<Box<str>, Vec<Box<str>>>,
    },
}

/// What a resource holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CustomHolds {
    /// A text; `{{name}}` stands for a part of the address.
    Text(Box<str>),
    /// Bytes, in base64.
    Blob(Box<str>),
    /// A file, as an absolute path; `{{name}}` stands for a part of the address.
    File(Box<str>),
    /// What is answered to a request.
    Request(HttpRequest),
}

impl CustomWork {
    /// The values suggested for an argument, or for a variable of a resource address.
    pub fn suggested_values(&self, name: &str) -> &[Box<str>] {
        let values = match self {
            Self::Prompt { arguments, .. } => {
                let argument = arguments.iter().find(|argument| *argument.name == *name);
                argument.map(|argument| &argument.values)
            }
            Self::Template { values, .. } => values.get(name),
            Self::Answer(_) | Self::Command(_) | Self::Resource { .. } => None,
        };
        values.map_or(&[], Vec::as_slice)
    }

    /// Whether the content of the resource is part of the manifest, so that it changes only with the manifest.
    pub fn is_fixed_resource(&self) -> bool {
        use CustomHolds::{Blob, Text};
        matches!(self, Self::Resource { holds: Text(_) | Blob(_), .. })
    }

    /// Which MCP primitive this is.
    pub fn primitive(&self) -> McpPrimitive {
        match self {
            Self::Answer(_) | Self::Command(_) => McpPrimitive::Tool,
            Self::Prompt { .. } => McpPrimitive::Prompt,
            Self::Resource { .. } | Self::Template { .. } => McpPrimitive::Resource,
        }
    }
}
