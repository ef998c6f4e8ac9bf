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
    /// A tool's name is empty, too long, has other characters than MCP lets it have, or is one of our own.
    #[error("a tool cannot be called '{0}': use 1 to 128 of A-Z, a-z, 0-9, `_`, `-` and `.`")]
    Name(Box<str>),
    /// A tool takes something else than an object.
    #[error("the arguments of tool '{0}' must be an object: take a struct")]
    Arguments(Box<str>),
}
