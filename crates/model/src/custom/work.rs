//! What is carried out for something that an admin wrote down: all of it stands in the manifest, so that what was reviewed
//! is what is done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CustomCommand, CustomMessage, FixedAnswer, PromptArgument};
use crate::{HttpRequest, Primitive};

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
    /// What it is.
    pub fn primitive(&self) -> Primitive {
        match self {
            Self::Answer(_) | Self::Command(_) => Primitive::Tool,
            Self::Prompt { .. } => Primitive::Prompt,
            Self::Resource { .. } | Self::Template { .. } => Primitive::Resource,
        }
    }
}
