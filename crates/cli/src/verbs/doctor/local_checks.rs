//! Checks of the local machine: the store, keys, secrets, the clock, files and limits.

use std::path::Path;
use std::sync::Arc;

use config::connection_limits::ConnectionLimits;
use jiff::{SignedDuration, Timestamp};
use model::SecretRef;
use server::{file_descriptors, tls};
use toolcrib::{Catalog, Journal, JournalLocation, SecretStore, Snapshot};

use super::DoctorFinding;
use crate::output::count_noun;
use crate::verbs::journal::open_to_read;
use crate::verbs::serve::first_admin;

/// Keys and certificates that expire within this time are a warning.
const EXPIRY_WARNING: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Maximum clock difference on one machine, or between synchronised nodes.
const MAX_NODE_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(5);

/// Checks that the journal can be read and that this version understands all its events.
pub(super) async fn check_store(
    place: &JournalLocation,
) -> (DoctorFinding, Option<(Arc<dyn Journal>, Catalog)>) {
    let opened = async {
        let journal = open_to_read(place).await?;
        let catalog = Catalog::open(Arc::clone(&journal)).await?;
        let head = journal.head_position().await?;
        Ok::<_, crate::cli_error::CliError>((journal, catalog, head))
    };
    let (journal, catalog, head) = match opened.await {
        Ok(opened) => opened,
        Err(failure) => {
            let advice =
                "say where the journal is with --journal; `toolcrib serve` makes a new one";
            return (DoctorFinding::problem("store", failure.full_message(), advice), None);
        }
    };
    let events = usize::try_from(head.0).unwrap_or(usize::MAX);
    let events = count_noun(events, "event", "events");
    let finding = match catalog.snapshot().not_understood() {
        0 => DoctorFinding::ok("store", format!("{place}: {events}, all of them read")),
        more => {
            let says =
                format!("{place}: {more} of {events} are of types this version does not know");
            DoctorFinding::warning(
                "store",
                says,
                "use the toolcrib that wrote them, or a newer one",
            )
        }
    };
    (finding, Some((journal, catalog)))
}

/// Checks that there is an admin, and warns about keys that expire soon.
pub(super) fn check_keys(
    snapshot: &Snapshot,
    now: Timestamp,
    has_issuers: bool,
) -> Vec<DoctorFinding> {
    let good = snapshot.keys().filter(|key| key.is_valid_at(now)).count();
    let mut findings = vec![match first_admin::has_admin(snapshot, now, has_issuers) {
        true => DoctorFinding::ok(
            "keys",
            count_noun(good, "key is good", "keys are good") + ", and there is an admin",
        ),
        false => {
            let advice =
                "the next start of `toolcrib serve` makes a key for an admin and prints it";
            DoctorFinding::warning("keys", "nobody can administer", advice)
        }
    }];
    for key in snapshot.keys().filter(|key| key.is_valid_at(now)) {
        let Some(ends) =
            key.profile.expires_at.filter(|ends| ends.duration_since(now) < EXPIRY_WARNING)
        else {
            continue;
        };
        let says = format!("ends at {ends:.0}");
        let advice = "make another one, `toolcrib key add NAME`, and hand it out before";
        findings.push(DoctorFinding::warning("key", says, advice).with_object(key.id.to_string()));
    }
    findings
}

/// Checks the clock: no event may lie in the future.
pub(super) fn check_clock(snapshot: &Snapshot, now: Timestamp) -> DoctorFinding {
    match snapshot.time() {
        Some(last) if MAX_NODE_CLOCK_SKEW < last.duration_since(now) => {
            let says = format!("the last event is of {last:.0}, and it is {now:.0} here");
            let advice = "set the clock of this machine (NTP): tokens and keys are judged by it";
            DoctorFinding::problem("clock", says, advice)
        }
        _ => DoctorFinding::ok("clock", "not before the last event"),
    }
}

/// Checks that every secret of an enabled source can be read, and that the key decrypts all sealed secrets.
pub(super) async fn check_secrets(
    journal: &Arc<dyn Journal>,
    snapshot: &Snapshot,
    secrets: &SecretStore,
) -> Vec<DoctorFinding> {
    let mut all: Vec<(SecretRef, Option<String>)> = Vec::new();
    for entry in snapshot.sources().filter(|entry| entry.source.enabled) {
        let of = entry.source.id.to_string();
        let wanted = entry.source.profile.secret_refs().into_iter().cloned();
        all.extend(wanted.map(|secret| (secret, Some(of.clone()))));
    }
    let mut findings = Vec::new();
    let sealed = journal.encrypted_secret_names().await.unwrap_or_else(|error| {
        let advice = "what is sealed is not looked at: mend the store";
        findings.push(DoctorFinding::problem("secrets", model::format_error_chain(&error), advice));
        Vec::new()
    });
    for name in sealed {
        let sealed = SecretRef::Sealed(name.into());
        if !all.iter().any(|(known, _)| *known == sealed) {
            all.push((sealed, None));
        }
    }
    for (secret, of) in &all {
        let Err(error) = secrets.read_secret(secret).await else { continue };
        let advice = match of {
            Some(source) => format!("source `{source}` cannot be called without it"),
            None => "no source refers to it: `toolcrib secret remove` forgets it".to_owned(),
        };
        findings.push(
            DoctorFinding::problem("secret", error.to_string(), advice)
                .with_object(secret.to_string()),
        );
    }
    if findings.is_empty() {
        let says = count_noun(all.len(), "secret can be read", "secrets can be read");
        findings.push(DoctorFinding::ok("secrets", says));
    }
    findings
}

/// Checks that certificate and key can be read and belong together, and that the certificate has not expired.
pub(super) fn check_tls(certificate: &Path, key: &Path, now: Timestamp) -> DoctorFinding {
    let ends = match tls::certificate_expiry(certificate, key) {
        Ok(ends) => ends,
        Err(error) => {
            let advice = "a server with these files does not start: give a pair in PEM";
            return DoctorFinding::problem("tls", model::format_error_chain(&error), advice);
        }
    };
    let says = format!("the certificate ends at {ends:.0}");
    match ends.duration_since(now) {
        left if left.is_negative() => DoctorFinding::problem(
            "tls",
            says,
            "clients refuse it: renew it; a running server reads it again",
        ),
        left if left < EXPIRY_WARNING => {
            DoctorFinding::warning("tls", says, "renew it; a running server reads it again")
        }
        _ => DoctorFinding::ok("tls", says),
    }
}

/// Checks that the limit of open files allows the maximum number of connections.
pub(super) fn check_open_files() -> DoctorFinding {
    let wanted = ConnectionLimits::default().max_connections;
    let places = file_descriptors::max_connection_capacity().min(wanted);
    let says = format!("room for {places} connections at once");
    match places < wanted {
        true => {
            let advice = format!("raise the number of open files (`ulimit -Hn`) for {wanted}");
            DoctorFinding::warning("limits", says, advice)
        }
        false => DoctorFinding::ok("limits", says),
    }
}
