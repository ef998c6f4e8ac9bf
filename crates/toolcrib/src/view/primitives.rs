//! Prompts and resources an agent has: what the providers of its view offer.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::AgentView;
use crate::call::{Ability, CallContext, NoAnswer, Question};
use crate::provider::{Coming, Listed, ProviderError, ToolProvider, Unfinished, UnfinishedOf};

/// What came of asking for a prompt or a resource.
#[derive(Debug)]
pub enum Got {
    /// The result, in the shape of MCP.
    Result(Map<String, Value>),
    /// Questions to the caller; with the answers it is asked again.
    Asks(Vec<(Box<str>, Question)>),
    /// The caller cannot do what is needed.
    Unable(Ability),
    /// It is not there, or not for this agent.
    Missing,
    /// What was asked for cannot be used, and why.
    Invalid(String),
    /// It failed.
    Failed(String),
}

impl AgentView {
    /// All prompts; the first of a name counts.
    pub fn prompts(&self) -> Vec<Arc<Listed>> {
        first_of_each(self.providers().flat_map(|provider| provider.list_prompts()))
    }

    /// All resources; the first of a `uri` counts.
    pub fn resources(&self) -> Vec<Arc<Listed>> {
        first_of_each(self.providers().flat_map(|provider| provider.list_resources()))
    }

    /// All templates of resources.
    pub fn resource_templates(&self) -> Vec<Arc<Listed>> {
        first_of_each(self.providers().flat_map(|provider| provider.list_resource_templates()))
    }

    /// The messages of a prompt.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Got {
        let has = |provider: &&Arc<dyn ToolProvider>| {
            provider.list_prompts().iter().any(|prompt| *prompt.key == *name)
        };
        match self.providers().find(has) {
            Some(provider) => got(call, provider.get_prompt(name, arguments, call)).await,
            None => Got::Missing,
        }
    }

    /// What a resource holds.
    pub async fn read(&self, uri: &str, call: &CallContext) -> Got {
        for provider in self.providers() {
            let read =
                async { provider.read_resource(uri, call).await.map(|found| found.ok_or(())) };
            match read.await {
                Ok(Ok(result)) => return Got::Result(result),
                Ok(Err(())) => {}
                Err(error) => return not_got(call, error),
            }
        }
        Got::Missing
    }

    /// Proposals for something unfinished; none if there is nothing of that name.
    pub fn complete(&self, unfinished: &Unfinished) -> Option<Vec<String>> {
        let proposals = self.providers().find_map(|provider| provider.complete(unfinished));
        proposals.or_else(|| self.knows(&unfinished.of).then(Vec::new))
    }

    fn knows(&self, of: &UnfinishedOf) -> bool {
        match of {
            UnfinishedOf::Prompt(name) => self.prompts().iter().any(|prompt| prompt.key == *name),
            UnfinishedOf::Template(uri) => {
                let mut offers = self.resource_templates().into_iter().chain(self.resources());
                offers.any(|offer| offer.key == *uri)
            }
        }
    }
}

fn first_of_each(offers: impl Iterator<Item = Arc<Listed>>) -> Vec<Arc<Listed>> {
    let mut taken: HashSet<Box<str>> = HashSet::new();
    offers.filter(|offer| taken.insert(offer.key.clone())).collect()
}

async fn got(call: &CallContext, coming: Coming<'_, Map<String, Value>>) -> Got {
    match coming.await {
        Ok(result) => Got::Result(result),
        Err(error) => not_got(call, error),
    }
}

fn not_got(call: &CallContext, error: ProviderError) -> Got {
    match error {
        ProviderError::NoAnswer(NoAnswer::Later) => Got::Asks(call.take_open()),
        ProviderError::NoAnswer(NoAnswer::Unable(ability)) => Got::Unable(ability),
        ProviderError::Invalid(why) => Got::Invalid(why),
        ProviderError::NoAnswer(NoAnswer::Refused(why)) | ProviderError::Failed(why) => {
            Got::Failed(why)
        }
        ProviderError::ToolNotFound { .. } => Got::Missing,
        ProviderError::Protocol { message, .. } => Got::Failed(message),
    }
}
