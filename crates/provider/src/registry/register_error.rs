//! Errors of registration.

/// Why an item was not registered. The registry stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// A tool with that name exists.
    #[error("Tool with name '{0}' already exists")]
    ToolExists(Box<str>),
    /// A prompt with that name exists.
    #[error("Prompt with name '{0}' already exists")]
    PromptExists(Box<str>),
    /// A resource at that address exists.
    #[error("Resource with URI '{0}' already exists")]
    ResourceExists(Box<str>),
    /// A resource template with that URI template exists.
    #[error("Resource template with URI template '{0}' already exists")]
    TemplateExists(Box<str>),
    /// The name of a meta tool: no other tool may be listed under it.
    #[error("a tool cannot be called '{0}': one of toolcrib's own is")]
    Reserved(Box<str>),
    /// The name of a tool is empty, too long, or has characters that MCP does not allow.
    #[error("a tool cannot be called '{0}': use 1 to 128 of A-Z, a-z, 0-9, `_`, `-` and `.`")]
    InvalidName(Box<str>),
    /// The arguments of a tool are not an object.
    #[error("the arguments of tool '{0}' must be an object: take a struct")]
    NonObjectArguments(Box<str>),
    /// A prompt, resource or template is incomplete or invalid.
    #[error("'{key}' cannot be registered: {why}")]
    Malformed {
        /// Its name or address.
        key: Box<str>,
        /// The problem and its remedy.
        why: &'static str,
    },
}
