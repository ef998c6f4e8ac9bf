//! Prompts: message texts with `{{name}}` placeholders, or a function that returns the messages.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use model::Content;
use model::placeholder::all_filled;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::handler::later;
use super::proposals::Proposals;
use super::result::BoxError;
use crate::call::CallContext;
use crate::provider::{Listed, ProviderError};

/// Maximum length of an unknown argument name that an error repeats, in characters.
const SHOWN: usize = 100;

/// A prompt. `{{name}}` in its texts is replaced by an argument. There is no other syntax, and inserted text is not
/// expanded again.
///
/// ```
/// use toolcrib::{Prompt, Registry};
///
/// let prompt = Prompt::new("explain", "Explains a thing")
///     .required("thing", "What to explain")
///     .optional("to", "Who wants to know")
///     .proposing("to", ["a child", "an expert"])
///     .user("Explain {{thing}} to {{to}}");
/// Registry::new().register_prompt(prompt)?;
/// # Ok::<(), toolcrib::RegisterError>(())
/// ```
pub struct Prompt {
    listed: Arc<Listed>,
    arguments: Vec<Argument>,
    texts: Vec<(Role, Box<str>)>,
    handler: Option<Messages>,
    proposals: Proposals,
}

struct Argument {
    name: Box<str>,
    description: Box<str>,
    is_required: bool,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptMessage {
    /// The speaker.
    pub role: Role,
    /// The content.
    pub content: Content,
}

/// The speaker of a prompt message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

type Giving = Pin<Box<dyn Future<Output = Result<Vec<PromptMessage>, ProviderError>> + Send>>;
type Messages = Box<dyn Fn(Map<String, Value>, CallContext) -> Giving + Send + Sync>;

impl PromptMessage {
    /// A text message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: Content::Text { text: text.into() } }
    }

    /// A text message of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: Content::Text { text: text.into() } }
    }
}

impl Prompt {
    /// A prompt without arguments and messages.
    pub fn new(name: impl Into<Box<str>>, description: &str) -> Self {
        let key = name.into();
        let shown = [("name", json!(key)), ("description", json!(description))];
        let shown = shown.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let listed = Arc::new(Listed { key, shown });
        let (arguments, texts, proposals) = (Vec::new(), Vec::new(), Proposals::default());
        Self { listed, arguments, texts, handler: None, proposals }
    }

    /// Sets the title.
    pub fn title(self, title: &str) -> Self {
        self.showing("title", title.into())
    }

    /// Adds a required argument.
    pub fn required(self, name: &str, description: &str) -> Self {
        let (name, description) = (name.into(), description.into());
        self.argument(Argument { name, description, is_required: true })
    }

    /// Adds an optional argument; its placeholder becomes empty text if it is missing.
    pub fn optional(self, name: &str, description: &str) -> Self {
        let (name, description) = (name.into(), description.into());
        self.argument(Argument { name, description, is_required: false })
    }

    /// Sets the values that completion proposes for an argument.
    pub fn proposing<V: Into<Box<str>>>(
        mut self,
        argument: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.proposals.put(argument, values);
        self
    }

    pub(super) fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// Appends a message of the user.
    pub fn user(mut self, text: &str) -> Self {
        self.texts.push((Role::User, text.into()));
        self
    }

    /// Appends a message of the model.
    pub fn assistant(mut self, text: &str) -> Self {
        self.texts.push((Role::Assistant, text.into()));
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
        let handler: Messages = Box::new(move |arguments, call| {
            let giving = handler(arguments, call.clone());
            let failed = move |error: E| later(ProviderError::of(error.into()), &call);
            Box::pin(async move { giving.await.map_err(failed) })
        });
        Self { handler: Some(handler), ..self }
    }

    fn argument(mut self, argument: Argument) -> Self {
        self.arguments.push(argument);
        let all = self.arguments.iter().map(|argument| {
            let Argument { name, description, is_required } = argument;
            json!({"name": name, "description": description, "required": is_required})
        });
        let all = all.collect();
        self.showing("arguments", Value::Array(all))
    }

    fn showing(mut self, member: &str, value: Value) -> Self {
        let mut listed = Arc::unwrap_or_clone(self.listed);
        listed.shown.insert(member.to_owned(), value);
        self.listed = Arc::new(listed);
        self
    }

    pub(super) fn listed(&self) -> &Arc<Listed> {
        &self.listed
    }

    /// Checks that the prompt has a valid name, valid arguments and messages.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.listed.key.trim().is_empty() || self.listed.key.chars().any(char::is_control) {
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
            () => self.proposals.check(|name| names.contains(name)),
        }
    }

    /// Renders the result of `prompts/get`.
    pub(super) async fn get(
        &self,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Map<String, Value>, ProviderError> {
        self.check_given(&arguments)?;
        let messages = match &self.handler {
            Some(handler) => handler(arguments, call.clone()).await?,
            None => self.filled_in(&arguments)?,
        };
        let description = self.listed.shown.get("description").cloned().unwrap_or_default();
        Ok(Map::from_iter([
            ("description".to_owned(), description),
            ("messages".to_owned(), json!(messages)),
        ]))
    }

    fn check_given(&self, arguments: &Map<String, Value>) -> Result<(), ProviderError> {
        let name = &self.listed.key;
        for Argument { name: argument, is_required, .. } in &self.arguments {
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
                other.chars().take(SHOWN).collect::<String>()
            ))),
            None => Ok(()),
        }
    }

    fn filled_in(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<Vec<PromptMessage>, ProviderError> {
        let is_name = |name: &str| self.arguments.iter().any(|it| *it.name == *name);
        let value = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or("");
        let texts = self.texts.iter().map(|(_, text)| &**text);
        let texts = all_filled(texts, is_name, value)
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        let roles = self.texts.iter().map(|(role, _)| *role);
        let messages = roles.zip(texts);
        let message = |(role, text)| PromptMessage { role, content: Content::Text { text } };
        Ok(messages.map(message).collect())
    }
}
