//! Reads one declared prompt: its messages, with placeholders for its arguments.

use std::collections::HashSet;

use model::{CustomMessage, CustomPrompt, CustomWork, MessageRole};

use super::{CustomSettingsReader, DeclarationHead, content_check, prompt_arguments_json};

impl CustomSettingsReader<'_> {
    pub(super) fn read_prompt(&mut self, number: usize, prompt: &CustomPrompt) {
        let at = format!("prompts[{number}]");
        let (before, name) = (self.problems.len(), &*prompt.name);
        self.check_name(&format!("{at}.name"), name);
        let key = format!("prompt/{name}");
        let twice = format!("Prompt with name '{name}' already exists");
        self.reserve_key(&format!("{at}.name"), &key, twice);
        let ways =
            [("template", prompt.template.is_some()), ("messages", !prompt.messages.is_empty())];
        self.check_exactly_one(&at, &ways);
        let mut taken = HashSet::new();
        for (number, argument) in prompt.arguments.iter().enumerate() {
            let at = format!("{at}.arguments[{number}]");
            self.check_values(&format!("{at}.values"), &argument.values);
            let at = format!("{at}.name");
            self.check_name(&at, &argument.name);
            if argument.name.contains(['{', '}']) {
                self.report_problem(at, "has a brace, which no placeholder has");
            } else if !taken.insert(&argument.name) {
                self.report_problem(at, format!("another argument is called `{}`", argument.name));
            }
        }
        for (number, message) in prompt.messages.iter().enumerate() {
            self.check_message(&format!("{at}.messages[{number}]"), message);
        }
        if let Some(template) = &prompt.template {
            self.check_length(&format!("{at}.template"), template);
        }
        if before < self.problems.len() {
            return;
        }
        let said = prompt.template.clone();
        let said = said.map(|text| CustomMessage {
            role: MessageRole::User,
            text: Some(text),
            content: None,
        });
        let messages = said.into_iter().chain(prompt.messages.iter().cloned()).collect();
        let (arguments, title) = (prompt.arguments.clone(), prompt.title.as_deref());
        let shown = match arguments.is_empty() {
            true => vec![],
            false => vec![("arguments", prompt_arguments_json(&arguments))],
        };
        let head = DeclarationHead { at, key, name, title, description: &prompt.description };
        self.add_declaration(head, CustomWork::Prompt { arguments, messages }, &shown);
    }

    fn check_message(&mut self, at: &str, message: &CustomMessage) {
        let ways = [("text", message.text.is_some()), ("content", message.content.is_some())];
        self.check_exactly_one(at, &ways);
        if let Some(text) = &message.text {
            self.check_length(&format!("{at}.text"), text);
        }
        if let Some(content) = &message.content {
            self.check_length(&format!("{at}.content"), &serde_json::json!(content).to_string());
            if let Some((member, why)) = content_check::find_content_problem(content) {
                self.report_problem(format!("{at}.content.{member}"), why);
            }
        }
    }
}
