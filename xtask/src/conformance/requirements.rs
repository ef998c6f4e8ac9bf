//! The scenarios that a protocol revision requires of servers and clients: the suite's `requirements/REVISION.yaml`.

#[derive(Debug, PartialEq, Eq)]
pub(super) struct RevisionRequirements {
    pub(super) revision: &'static str,
    /// Required server scenarios; they determine the suite's exit code.
    pub(super) server: Vec<String>,
    /// Task scenarios: optional for the suite, required by us.
    pub(super) tasks: Vec<String>,
    /// Other server scenarios: run, but never counted.
    pub(super) others: Vec<String>,
    /// Required client scenarios.
    pub(super) client: Vec<String>,
    pub(super) client_others: Vec<String>,
}

impl RevisionRequirements {
    /// Parses the two forms that these files use: a list of names, and a list of entries with a name and a leg.
    pub(super) fn parse(revision: &'static str, yaml: &str) -> Self {
        let mut read = Self::empty(revision);
        let mut section = "";
        let mut optional = "";
        for line in yaml.lines() {
            if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with([' ', '#']))
            {
                section = name;
            } else if let Some(name) = line.strip_prefix("  - scenario: ") {
                optional = name.trim();
            } else if line == "    leg: server" && section == "not_scored" {
                let tasks = optional.starts_with("tasks-");
                let list = if tasks { &mut read.tasks } else { &mut read.others };
                list.push(optional.to_owned());
            } else if line == "    leg: client" && section == "not_scored" {
                read.client_others.push(optional.to_owned());
            } else if let Some(name) = line.strip_prefix("  - ") {
                match section {
                    "server" => read.server.push(name.trim().to_owned()),
                    "client" => read.client.push(name.trim().to_owned()),
                    _ => {}
                }
            }
        }
        read
    }

    fn empty(revision: &'static str) -> Self {
        let none = Vec::new;
        let (server, tasks, others) = (none(), none(), none());
        Self { revision, server, tasks, others, client: none(), client_others: none() }
    }

    pub(super) fn has_server_scenarios(&self) -> bool {
        [&self.server, &self.tasks, &self.others].into_iter().any(|list| !list.is_empty())
    }

    pub(super) fn has_client_scenarios(&self) -> bool {
        !self.client.is_empty() || !self.client_others.is_empty()
    }

    /// Removes all scenarios except `only`; returns whether it exists.
    pub(super) fn retain_only(&mut self, only: &str) -> bool {
        let Self { server, tasks, others, client, client_others, .. } = self;
        for list in [server, tasks, others, client, client_others] {
            list.retain(|name| name == only);
        }
        self.has_server_scenarios() || self.has_client_scenarios()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
# server: a comment
server:
  - ping
  - tools-list

client:
  - initialize

not_scored:
  - scenario: auth/dpop
    leg: client
    reason: extension
  - scenario: tasks-lifecycle
    leg: server
    reason: extension
    note: >-
      run for visibility
  - scenario: server-sse-polling
    leg: server
    reason: pending
";

    fn read() -> RevisionRequirements {
        RevisionRequirements::parse("2025-11-25", YAML)
    }

    #[test]
    fn server_and_client_scenarios_are_separated() {
        let read = read();
        assert_eq!(
            (read.client.as_slice(), read.client_others.as_slice()),
            (&["initialize".to_owned()][..], &["auth/dpop".to_owned()][..])
        );
        assert_eq!(read.server, ["ping", "tools-list"]);
        assert_eq!(read.tasks, ["tasks-lifecycle"]);
        assert_eq!(read.others, ["server-sse-polling"]);
    }

    #[test]
    fn one_scenario_can_be_kept() {
        let mut read = read();
        assert!(read.retain_only("ping"));
        assert_eq!((read.server.len(), read.tasks.len(), read.others.len()), (1, 0, 0));
        assert!(read.has_server_scenarios() && !read.has_client_scenarios());
        assert!(!read.retain_only("initialize"));
    }
}
