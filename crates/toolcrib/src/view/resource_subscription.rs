//! Resource subscriptions: to resources of MCP servers that the agent has, of providers, and of admins (custom
//! resources).

use calls::source_gates::SourceVerdict;
use calls::upstream_connections::mcp_bridge;
use model::SourceId;
use provider::GuardedLists as _;
use provider::uri_template::may_match_template;

use super::AgentView;
use super::custom_offers::custom_work;
use crate::upstream_subscriptions::{ResourceSubscriptions, SubscribeError};

impl AgentView {
    /// Subscribes to changes of a resource. Providers report changes without a subscription.
    pub async fn subscribe_to_resource(
        &self,
        uri: &str,
        following: &ResourceSubscriptions,
    ) -> Result<(), SubscribeError> {
        let Some((offer, own)) = self.find_catalog_resource(uri) else {
            return if self.is_provider_resource(uri) {
                Ok(())
            } else {
                Err(SubscribeError::Missing)
            };
        };
        let source =
            self.snapshot.source(&offer.entry.tool.source).ok_or(SubscribeError::Missing)?;
        let tool = &offer.entry.tool;
        self.check_scopes(&source.source, Some(tool))
            .map_err(|failure| SubscribeError::Failed(failure.message))?;
        if let Some(work) = custom_work(&offer) {
            // A fixed custom resource changes only with the settings; files and HTTP resources send no notifications.
            return if work.is_fixed_resource() {
                Ok(())
            } else {
                Err(SubscribeError::Unsupported)
            };
        }
        if following.is_subscribed(uri) {
            return Ok(());
        }
        let stay = self.admit_once(&source.source, &tool.id, mcp_bridge::DEFAULT_DEADLINE).await;
        let stay = stay.map_err(|failure| SubscribeError::Failed(failure.message))?;
        let until = self.mcp_deadline(&source.source);
        let upstream = match self.connect_mcp(&source.source, offer.audience(), until).await {
            Ok(upstream) => upstream,
            Err(failed) => {
                stay.finish(failed.verdict());
                let why = failed.failure().map(|failure| failure.message.clone());
                return Err(SubscribeError::Failed(why.unwrap_or_default()));
            }
        };
        if !upstream.connection.supports_resource_updates() {
            return Err(SubscribeError::Unsupported);
        }
        let followed = following.subscribe(&self.crib, &self.agent, &upstream, uri, &own).await;
        if followed.is_ok() {
            stay.finish(SourceVerdict::Works);
        }
        followed
    }

    /// Whether this fixed custom resource exists and differs from an earlier view.
    pub fn is_fixed_resource_changed(&self, uri: &str, before: &Self) -> bool {
        let fixed = |view: &Self| {
            let (offer, _) = view.find_catalog_resource(uri)?;
            custom_work(&offer).filter(|work| work.is_fixed_resource()).cloned()
        };
        let now = fixed(self);
        now.is_some() && now != fixed(before)
    }

    /// Ends the subscriptions to resources that the agent no longer has.
    pub fn prune_subscriptions(&self, following: &ResourceSubscriptions) {
        following.retain_same_source(|uri| self.source_of_resource(uri));
    }

    fn source_of_resource(&self, uri: &str) -> Option<SourceId> {
        self.find_catalog_resource(uri).map(|(offer, _)| offer.entry.tool.source.clone())
    }

    fn is_provider_resource(&self, uri: &str) -> bool {
        self.tool_providers().any(|provider| {
            let templates = provider.templates_or_empty();
            provider.resources_or_empty().iter().any(|one| *one.key == *uri)
                || templates.iter().any(|one| may_match_template(uri, &one.key))
        })
    }
}
