//! Prompts: message texts with `{{name}}` placeholders, or a function that returns the messages.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use model::Content;
use model::placeholder::fill_all;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::completion_values::CompletionValues;
use super::handler_result::BoxError;
use super::tool_handler::restore_pending;
use crate::call_context::CallContext;
use crate::tool_provider::{OfferListing, ProviderError};

/// Maximum length of an unknown argument name that an error repeats, in characters.
const MAX_ECHOED_NAME: usize = 100;

/// A prompt. `{{name}}` in its texts is replaced by an argument. There is no other syntax, and inserted text is not
/// expanded again.
///
/// ```
/// use toolcrib_provider::{Prompt, Registry};
///
/// let prompt = Prompt::new("explain", "Explains a thing")
///     .required("thing", "What to explain")
///     .optional("to", "Who wants to know")
///     .proposing("to", ["a child", "an expert"])
///     .user("Explain {{thing}} to {{to}}");
/// Registry::new().register_prompt(prompt)?;
/// # Ok::<(), toolcrib_provider::RegisterError>(())
/// ```
pub struct Prompt {
    listing: Arc<OfferListing>,
    arguments: Vec<DeclaredArgument>,
    texts: Vec<(PromptRole, Box<str>)>,
    handler: Option<MessagesHandler>,
    completions: CompletionValues,
}

struct DeclaredArgument {
    name: Box<str>,
    description: Box<str>,
    is_required: bool,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptMessage {
    /// The speaker.
    pub role: PromptRole,
    /// The content.
    pub content: Content,
}

/// The speaker of a prompt message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptRole {
    /// The user.
    User,
    /// The model.
    Assistant,
}

type MessagesFuture =
    Pin<Box<dyn Future<Output = Result<Vec<PromptMessage>, ProviderError>> + Send>>;
type MessagesHandler = Box<dyn Fn(Map<String, Value>, CallContext) -> MessagesFuture + Send + Sync>;

impl PromptMessage {
    /// A text message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: PromptRole::User, content: Content::Text { text: text.into() } }
    }

    /// A text message of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: PromptRole::Assistant, content: Content::Text { text: text.into() } }
    }
}

impl Prompt {
    /// A prompt without arguments and messages.
    pub fn new(name: impl Into<Box<str>>, description: &str) -> Self {
        let key = name.into();
        let shown = [("name", json!(key)), ("description", json!(description))];
        let shown = shown.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let listed = Arc::new(OfferListing { key, fields: shown });
        let (arguments, texts, proposals) = (Vec::new(), Vec::new(), CompletionValues::default());
        Self { listing: listed, arguments, texts, handler: None, completions: proposals }
    }

    /// Sets the title.
    pub fn title(self, title: &str) -> Self {
        self.set_field("title", title.into())
    }

    /// Adds a required argument.
    pub fn required(self, name: &str, description: &str) -> Self {
        let (name, description) = (name.into(), description.into());
        self.add_argument(DeclaredArgument { name, description, is_required: true })
    }

    /// Adds an optional argument; its placeholder becomes empty text if it is missing.
    pub fn optional(self, name: &str, description: &str) -> Self {
        let (name, description) = (name.into(), description.into());
        self.add_argument(DeclaredArgument { name, description, is_required: false })
    }

    /// Sets the values that completion proposes for an argument.
    pub fn proposing<V: Into<Box<str>>>(
        mut self,
        argument: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.completions.set_values(argument, values);
        self
    }

    pub(super) fn completions(&self) -> &CompletionValues {
        &self.completions
    }

    /// Appends a message of the user.
    pub fn user(mut self, text: &str) -> Self {
        self.texts.push((PromptRole::User, text.into()));
        self
    }

    /// Appends a message of the model.
    pub fn assistant(mut self, text: &str) -> Self {
        self.texts.push((PromptRole::Assistant, text.into()));
        self
    }

    /// Sets a function that returns the messages instead. It receives the given arguments: strings only, including all
    /// required ones.
    pub fn answered_by<F, Answering, E>(self, handler: F) -> Self
    where
        F: Fn(Map<String, Value>, CallContext) -> Answering + Send + Sync + 'static,
        Answering: Future<Output = Result<Vec<PromptMessage>, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let handler: MessagesHandler = Box::new(move |arguments, call| {
            let giving = handler(arguments, call.clone());
            let failed = move |error: E| {
                restore_pending(ProviderError::from_handler_error(error.into()), &call)
            };
            Box::pin(async move { giving.await.map_err(failed) })
        });
        Self { handler: Some(handler), ..self }
    }

    fn add_argument(mut self, argument: DeclaredArgument) -> Self {
        self.arguments.push(argument);
        let all = self.arguments.iter().map(|argument| {
            let DeclaredArgument { name, description, is_required } = argument;
            json!({"name": name, "description": description, "required": is_required})
        });
        let all = all.collect();
        self.set_field("arguments", Value::Array(all))
    }

    fn set_field(mut self, member: &str, value: Value) -> Self {
        let mut listed = Arc::unwrap_or_clone(self.listing);
        listed.fields.insert(member.to_owned(), value);
        self.listing = Arc::new(listed);
        self
    }

    pub(super) fn listing(&self) -> &Arc<OfferListing> {
        &self.listing
    }

    /// Checks that the prompt has a valid name, valid arguments and messages.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        if self.listing.key.trim().is_empty() || self.listing.key.chars().any(char::is_control) {
            return Err("give it a name, without control characters");
        }
        let names: HashSet<&str> = self.arguments.iter().map(|it| &*it.name).collect();
        match () {
            () if names.len() < self.arguments.len() => Err("two of its arguments have one name"),
            () if names.iter().any(|name| name.is_empty() || name.contains(['{', '}'])) => {
                Err("give each of its arguments a name, without braces")
            }
            () if self.texts.is_empty() && self.handler.is_none() => {
                Err("it has nothing to say: add `user`, `assistant` or `answered_by`")
            }
            () => self.completions.check_names(|name| names.contains(name)),
        }
    }

    /// Renders the result of `prompts/get`.
    pub(super) async fn render(
        &self,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Map<String, Value>, ProviderError> {
        self.check_given_arguments(&arguments)?;
        let messages = match &self.handler {
            Some(handler) => handler(arguments, call.clone()).await?,
            None => self.fill_messages(&arguments)?,
        };
        let description = self.listing.fields.get("description").cloned().unwrap_or_default();
        Ok(Map::from_iter([
            ("description".to_owned(), description),
            ("messages".to_owned(), json!(messages)),
        ]))
    }

    fn check_given_arguments(&self, arguments: &Map<String, Value>) -> Result<(), ProviderError> {
        let name = &self.listing.key;
        for DeclaredArgument { name: argument, is_required, .. } in &self.arguments {
            let why = match arguments.get(&**argument) {
                None if *is_required => "needs the argument",
                Some(given) if !given.is_string() => "takes only a text as",
                _ => continue,
            };
            return Err(ProviderError::Invalid(format!("the prompt `{name}` {why} `{argument}`")));
        }
        match arguments.iter().find(|(_, given)| !given.is_string()) {
            Some((other, _)) => Err(ProviderError::Invalid(format!(
                "the prompt `{name}` takes only texts, and `{}` is none",
                other.chars().take(MAX_ECHOED_NAME).collect::<String>()
            ))),
            None => Ok(()),
        }
    }

    fn fill_messages(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<Vec<PromptMessage>, ProviderError> {
        let is_name = |name: &str| self.arguments.iter().any(|it| *it.name == *name);
        let value = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or("");
        let texts = self.texts.iter().map(|(_, text)| &**text);
        let texts = fill_all(texts, is_name, value)
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        let roles = self.texts.iter().map(|(role, _)| *role);
        let messages = roles.zip(texts);
        let message = |(role, text)| PromptMessage { role, content: Content::Text { text } };
        Ok(messages.map(message).collect())
    }
}
