//! Why something was not registered.

/// Why something was not registered. What was there before is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// There is a tool of that name.
    #[error("Tool with name '{0}' already exists")]
    ToolExists(Box<str>),
    /// There is a prompt of that name.
    #[error("Prompt with name '{0}' already exists")]
    PromptExists(Box<str>),
    /// There is a resource at that address.
    #[error("Resource with URI '{0}' already exists")]
    ResourceExists(Box<str>),
    /// There is such a template.
    #[error("Resource template with URI template '{0}' already exists")]
    TemplateExists(Box<str>),
    /// No other tool is ever shown under the name of one of our own.
    #[error("a tool cannot be called '{0}': one of toolcrib's own is")]
    Reserved(Box<str>),
    /// A tool's name is empty, too long or has other characters than MCP lets it have.
    #[error("a tool cannot be called '{0}': use 1 to 128 of A-Z, a-z, 0-9, `_`, `-` and `.`")]
    Name(Box<str>),
    /// A tool takes something else than an object.
    #[error("the arguments of tool '{0}' must be an object: take a struct")]
    Arguments(Box<str>),
    /// A prompt, a resource or a template is not what it must be for anybody to ask for it.
    #[error("'{key}' cannot be registered: {why}")]
    Malformed {
        /// The name or address.
        key: Box<str>,
        /// What is wrong, and what to do.
        why: &'static str,
    },
}
