//! Settings of a source of kind `openapi`: where its specification is, and how it is read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{PollingSettings, SecretRef, SourceUrl};

/// What an admin says of a specification. Everything has a default, and what is as usual is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OpenapiSettings {
    /// Where the specification is. If it is given, the source's `url` is the base of all calls. If not, the source's
    /// `url` is the address of the specification, and the specification says where calls go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specification: Option<SpecificationLocation>,
    /// Which text of an operation describes its tool.
    #[serde(skip_serializing_if = "OperationDescription::is_default")]
    pub describe: OperationDescription,
    /// The media type to send where an operation takes several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<Box<str>>,
    /// Whether documents of the specification's own origin are fetched if it refers to them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follow_references: bool,
    /// Whether agents need the scopes that the specification names. Without a word they do where calls are made with their own
    /// rights (`token_exchange`); elsewhere the scopes are those of a token of ours.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_scopes: bool,
    /// The credentials by the name of the security scheme they are for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<Box<str>, SecretRef>,
    /// How work of operations is followed that goes on after their answer, by `operationId` or by the name of the tool;
    /// in the place of what the specification says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub polling: BTreeMap<Box<str>, PollingSettings>,
}

/// Where a specification is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SpecificationPlace")]
pub enum SpecificationLocation {
    /// An address on the web.
    Url(SourceUrl),
    /// A file the server can read.
    File(Box<str>),
    /// Right here.
    Text(Box<str>),
}

/// Which text of an operation describes its tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Describe")]
pub enum OperationDescription {
    /// The summary, or the description if there is none.
    #[default]
    Summary,
    /// The description, or the summary if there is none.
    Description,
    /// Both.
    Both,
}

impl OperationDescription {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::SourceSettings;

    #[test]
    fn empty_openapi_settings_serialise_to_the_kind_alone() {
        let settings: SourceSettings = serde_json::from_value(json!({"kind": "openapi"})).unwrap();
        assert_eq!(settings, SourceSettings::Openapi(OpenapiSettings::default()));
        assert_eq!(serde_json::to_value(settings).unwrap(), json!({"kind": "openapi"}));
    }

    #[test]
    fn openapi_settings_survive_serialisation() {
        let written = json!({
            "kind": "openapi", "specification": {"file": "/etc/pets.yaml"}, "describe": "both",
            "media_type": "application/xml", "follow_references": true, "require_scopes": true, "credentials": {"key": "env:KEY"},
            "polling": {"begin": {"status_url": "/jobs/{answer.id}", "status_path": "state", "completed": ["done"]}},
        });
        let settings: SourceSettings = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(settings).unwrap(), written);
        for place in [json!({"url": "https://pets.test/spec"}), json!({"text": "openapi: 3.1.0"})] {
            let read: SpecificationLocation = serde_json::from_value(place.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), place);
        }
    }

    #[test]
    fn a_literal_credential_is_rejected_and_not_repeated() {
        let written = json!({"kind": "openapi", "credentials": {"key": "hunter2"}});
        let error = serde_json::from_value::<SourceSettings>(written).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
