//! Resource subscriptions: to resources of MCP servers that the agent has, of providers, and of admins (custom
//! resources).

use model::SourceId;

use super::AgentView;
use super::custom::work_of;
use crate::gates::Verdict;
use crate::provider::Lists as _;
use crate::upstreams::bridge;
use crate::upstreams::followers::{Following, NotFollowed};
use crate::uri_template::is_like;

impl AgentView {
    /// Subscribes to changes of a resource. Providers report changes without a subscription.
    pub async fn follow(&self, uri: &str, following: &Following) -> Result<(), NotFollowed> {
        let Some((offer, own)) = self.resource_of_source(uri) else {
            return if self.is_provided(uri) { Ok(()) } else { Err(NotFollowed::Missing) };
        };
        let source = self.snapshot.source(&offer.entry.tool.source).ok_or(NotFollowed::Missing)?;
        let tool = &offer.entry.tool;
        self.check_scopes(&source.source, Some(tool))
            .map_err(|failure| NotFollowed::Failed(failure.message))?;
        if let Some(work) = work_of(&offer) {
            // A fixed custom resource changes only with the settings; files and HTTP resources send no notifications.
            return if work.is_fixed_resource() { Ok(()) } else { Err(NotFollowed::Silent) };
        }
        if following.has(uri) {
            return Ok(());
        }
        let stay = self.enter(&source.source, &tool.id, bridge::DEADLINE).await;
        let stay = stay.map_err(|failure| NotFollowed::Failed(failure.message))?;
        let until = self.until_of_server(&source.source);
        let upstream = match self.upstream(&source.source, offer.audience(), until).await {
            Ok(upstream) => upstream,
            Err(failed) => {
                stay.end(failed.verdict());
                let why = failed.failure().map(|failure| failure.message.clone());
                return Err(NotFollowed::Failed(why.unwrap_or_default()));
            }
        };
        if !upstream.connection.tells_of_resources() {
            return Err(NotFollowed::Silent);
        }
        let followed = following.add(&self.crib, &self.agent, &upstream, uri, &own).await;
        if followed.is_ok() {
            stay.end(Verdict::Works);
        }
        followed
    }

    /// Whether this fixed custom resource exists and differs from an earlier view.
    pub fn is_rewritten(&self, uri: &str, before: &Self) -> bool {
        let fixed = |view: &Self| {
            let (offer, _) = view.resource_of_source(uri)?;
            work_of(&offer).filter(|work| work.is_fixed_resource()).cloned()
        };
        let now = fixed(self);
        now.is_some() && now != fixed(before)
    }

    /// Ends the subscriptions to resources that the agent no longer has.
    pub fn keep_following(&self, following: &Following) {
        following.keep(|uri| self.source_of(uri));
    }

    fn source_of(&self, uri: &str) -> Option<SourceId> {
        self.resource_of_source(uri).map(|(offer, _)| offer.entry.tool.source.clone())
    }

    fn is_provided(&self, uri: &str) -> bool {
        self.providers().any(|provider| {
            let templates = provider.templates();
            provider.resources().iter().any(|one| *one.key == *uri)
                || templates.iter().any(|one| is_like(uri, &one.key))
        })
    }
}
