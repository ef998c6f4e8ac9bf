//! The rules of a source's profile that its types do not express.

use model::{
    ApiKeyLocation, SourceId, SourceProfile, SourceSettings, SourceUrl, UpstreamAuth, header_names,
    is_scope,
};
use toolcrib::{CustomProblem, InvalidWorkflowDocument, read_custom, read_workflows};
use upstream::egress::AllowedDestination;

use crate::problem::FieldError;

/// Errors in a profile that every server reports, per field.
pub fn profile_errors(profile: &SourceProfile) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match &profile.settings {
        SourceSettings::Mcp { command: Some(command), .. } => {
            errors.extend(command.find_problems().into_iter().map(|problem| FieldError {
                field: format!("settings.command.{}", problem.member),
                message: problem.why,
            }));
        }
        SourceSettings::Mcp { command: None, .. } if profile.url.is_none() => {
            let message = "give the `url` of the MCP server, or a `command` in `settings`";
            errors.push(FieldError { field: "url".to_owned(), message: message.to_owned() });
        }
        SourceSettings::Openapi(settings) => {
            // Without its own specification, `url` locates the specification, whose servers are not known yet.
            let base = profile.url.as_ref().filter(|_| settings.specification.is_some());
            let url = base.map(SourceUrl::as_url);
            let wrong = settings.polling.iter();
            let wrong =
                wrong.filter_map(|(name, it)| Some((name, sources::polling_problem(url, it)?)));
            errors.extend(wrong.map(|(name, message)| FieldError {
                field: format!("settings.polling.{name}"),
                message,
            }));
        }
        SourceSettings::Workflow { documents } if documents.is_empty() => {
            let message = "give the `documents` of the workflows, as texts".to_owned();
            errors.push(FieldError { field: "settings.documents".to_owned(), message });
        }
        _ => {}
    }
    errors.extend(profile.auth.find_problems().into_iter().map(|problem| FieldError {
        field: format!("auth.{}", problem.member),
        message: problem.why.to_owned(),
    }));
    if profile.auth.authenticates_by_certificate()
        && !profile.client_certificate.as_ref().is_some_and(|it| it.for_tokens)
    {
        let message = "is missing: give it, or a `client_certificate` with `for_tokens`".to_owned();
        errors.push(FieldError { field: "auth.client_secret".to_owned(), message });
    }
    if let (
        UpstreamAuth::ApiKey { location: ApiKeyLocation::Query, .. },
        SourceSettings::Mcp { .. },
    ) = (&profile.auth, &profile.settings)
    {
        let message = "an MCP server is shown no key in the query".to_owned();
        errors.push(FieldError { field: "auth.location".to_owned(), message });
    }
    let is_mcp_at_url = matches!(&profile.settings, SourceSettings::Mcp { command: None, .. });
    if profile.auth.is_mcp_only() && !is_mcp_at_url {
        let message = "is for MCP servers at a `url`".to_owned();
        errors.push(FieldError { field: "auth.kind".to_owned(), message });
    }
    if matches!(profile.settings, SourceSettings::Custom(_))
        && (profile.auth != UpstreamAuth::None || profile.client_certificate.is_some())
        && profile.url.is_none()
    {
        let message = "say where the credential of the source goes: to the origin of this `url`";
        errors.push(FieldError { field: "url".to_owned(), message: message.to_owned() });
    }
    if profile.required_scopes.iter().flatten().any(|scope| !is_scope(scope)) {
        let message = "has one with characters that no scope has".to_owned();
        errors.push(FieldError { field: "required_scopes".to_owned(), message });
    }
    for (number, text) in profile.allow.iter().enumerate() {
        if let Err(error) = text.parse::<AllowedDestination>() {
            let field = format!("allow[{number}]");
            errors.push(FieldError { field, message: error.to_string() });
        }
    }
    for name in &profile.forward_headers {
        if !header_names::may_be_forwarded(name) {
            let message = format!("`{}` is no header that can be passed on", name.escape_default());
            errors.push(FieldError { field: "forward_headers".to_owned(), message });
        }
        if profile.auth.api_key_header().is_some_and(|key| key.eq_ignore_ascii_case(name)) {
            let message = format!(
                "`{name}` is the header of the source's own key in `auth`: leave it out here, or \
                 choose another `kind` of `auth` if the agent's own value is to be sent"
            );
            errors.push(FieldError { field: "forward_headers".to_owned(), message });
        }
    }
    if 100 < profile.shrink_limit {
        let message = "is more than 100 per cent".to_owned();
        errors.push(FieldError { field: "shrink_limit".to_owned(), message });
    }
    errors
}

/// All errors in the tools, prompts and resources of a custom source.
pub fn custom_source_errors(id: &SourceId, profile: &SourceProfile) -> Vec<FieldError> {
    let SourceSettings::Custom(custom) = &profile.settings else { return Vec::new() };
    let Err(error) = read_custom(id, profile.url.as_ref(), custom) else { return Vec::new() };
    let field = |at: &str| match at {
        "" => "settings".to_owned(),
        at => format!("settings.{at}"),
    };
    let say = |it: CustomProblem| FieldError { field: field(&it.at), message: it.why };
    error.problems.into_iter().map(say).collect()
}

/// The first error in the workflow documents of a source, if it has any.
pub fn workflow_error(id: &SourceId, profile: &SourceProfile) -> Option<FieldError> {
    let SourceSettings::Workflow { documents } = &profile.settings else { return None };
    let (field, error) = match read_workflows(id, documents).err()? {
        InvalidWorkflowDocument::InDocument { number, source } => {
            (format!("settings.documents[{number}]"), *source)
        }
        other => ("settings.documents".to_owned(), other),
    };
    Some(FieldError { field, message: model::format_error_chain(&error) })
}
