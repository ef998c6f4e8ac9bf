//! The OTLP export settings: the environment variables of OpenTelemetry, and one command line option that overrides
//! them.
//!
//! Kubernetes operators set these variables for all programs. Therefore an unsupported protocol is only a warning:
//! telemetry settings must not keep a server from starting.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use toolcrib::telemetry::{OtlpCollector, OtlpOptions, OtlpProtocol};
use upstream::http::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::cli_error::CliError;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const SERVICE: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// One exported signal, and its own environment variables.
struct OtlpSignal {
    name: &'static str,
    path: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
    headers: &'static str,
    timeout: &'static str,
    exporter: &'static str,
}

static METRICS: OtlpSignal = OtlpSignal {
    name: "metrics",
    path: "v1/metrics",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    exporter: "OTEL_METRICS_EXPORTER",
};
static TRACES: OtlpSignal = OtlpSignal {
    name: "traces",
    path: "v1/traces",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    exporter: "OTEL_TRACES_EXPORTER",
};

/// Ignored variables of OpenTelemetry, each with the values that match our behaviour and need no warning.
const IGNORED_VARIABLES: [(&str, &[&str]); 17] = [
    ("OTEL_EXPORTER_OTLP_CERTIFICATE", &[]),
    ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &[]),
    ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &[]),
    ("OTEL_EXPORTER_OTLP_COMPRESSION", &["none"]),
    ("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", &[]),
    ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", &[]),
    ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY", &[]),
    ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", &["none"]),
    ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", &[]),
    ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", &[]),
    ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", &[]),
    ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", &["none"]),
    ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", &["cumulative"]),
    ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", &["explicit_bucket_histogram"]),
    ("OTEL_PROPAGATORS", &["tracecontext", "tracecontext,baggage"]),
    ("OTEL_TRACES_SAMPLER", &["always_on", "parentbased_always_on"]),
    ("OTEL_TRACES_SAMPLER_ARG", &[]),
];

/// Defaults in milliseconds, as in the OpenTelemetry specification.
const DEFAULT_TIMEOUT_MILLIS: u64 = 10_000;
const DEFAULT_INTERVAL_MILLIS: u64 = 60_000;

/// Reads the export settings; `None` if nothing is exported.
pub(super) fn read_otlp_settings(
    option: Option<&Url>,
    variable: impl Fn(&'static str) -> Result<Option<String>, CliError>,
) -> Result<Option<OtlpOptions>, CliError> {
    if variable(DISABLED)?.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let metrics = signal_collector(&METRICS, option, &variable)?;
    let traces = signal_collector(&TRACES, option, &variable)?;
    if metrics.is_none() && traces.is_none() {
        return Ok(None);
    }
    let ignored: Vec<_> = IGNORED_VARIABLES
        .into_iter()
        .filter_map(|(name, usual)| Some((name, variable(name).ok()??, usual)))
        .filter(|(_, text, usual)| !usual.contains(&text.as_str()))
        .map(|(name, ..)| name)
        .collect();
    if !ignored.is_empty() {
        tracing::warn!("these variables are set, and not heeded here: {}", ignored.join(", "));
    }
    let mut resource = parse_pairs(RESOURCE, variable(RESOURCE)?.as_deref())?;
    let service = variable(SERVICE)?;
    if service.is_some() || !resource.iter().any(|(name, _)| name == "service.name") {
        resource.retain(|(name, _)| name != "service.name");
        let service = service.unwrap_or_else(|| "toolcrib".to_owned());
        resource.push(("service.name".to_owned(), service));
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    resource.push(("service.version".to_owned(), version));
    Ok(Some(OtlpOptions {
        metrics,
        traces,
        every: parse_millis(INTERVAL, variable(INTERVAL)?, DEFAULT_INTERVAL_MILLIS)?,
        resource,
    }))
}

fn parse_millis(
    name: &'static str,
    text: Option<String>,
    usual: u64,
) -> Result<Duration, CliError> {
    let time = text.map_or(Ok(usual), |text| text.parse());
    let time = time.ok().filter(|time| 0 < *time);
    let time = time.ok_or_else(|| unusable_variable(name, "give milliseconds".to_owned()))?;
    Ok(Duration::from_millis(time))
}

/// The collector of one signal; `None` if the signal is not exported.
fn signal_collector(
    signal: &OtlpSignal,
    option: Option<&Url>,
    variable: impl Fn(&'static str) -> Result<Option<String>, CliError>,
) -> Result<Option<OtlpCollector>, CliError> {
    let exporters = variable(signal.exporter)?.unwrap_or_else(|| "otlp".to_owned());
    if exporters.split(',').all(|exporter| exporter.trim() != "otlp") {
        return Ok(None);
    }
    let own = |own, of_all| match variable(own)? {
        Some(text) => Ok::<_, CliError>((own, Some(text))),
        None => Ok((of_all, variable(of_all)?)),
    };
    let url = match (variable(signal.endpoint)?, option, variable(ENDPOINT)?) {
        (Some(own), _, _) => parse_endpoint(signal.endpoint, &own),
        (None, Some(base), _) => Ok(join_path(base, signal.path)),
        (None, None, Some(base)) => {
            parse_endpoint(ENDPOINT, &base).map(|base| join_path(&base, signal.path))
        }
        (None, None, None) => return Ok(None),
    };
    let (asked_by, asked) = own(signal.protocol, PROTOCOL)?;
    let protocol = match asked.as_deref() {
        None | Some("http/protobuf") => OtlpProtocol::Protobuf,
        Some("http/json") => OtlpProtocol::Json,
        // The endpoint may be no HTTP URL (gRPC), and need not be parsed.
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            tracing::warn!(
                "no {} are pushed to a collector: {asked_by} asks for `{other}`; `http/protobuf` \
                 and `http/json` are spoken here",
                signal.name
            );
            return Ok(None);
        }
    };
    let (name, text) = own(signal.headers, HEADERS)?;
    let headers = parse_headers(name, text.as_deref())?;
    let (name, text) = own(signal.timeout, TIMEOUT)?;
    let timeout = parse_millis(name, text, DEFAULT_TIMEOUT_MILLIS)?;
    Ok(Some(OtlpCollector { url: url?, protocol, headers, timeout }))
}

fn parse_endpoint(name: &'static str, text: &str) -> Result<Url, CliError> {
    let url = text.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| {
        unusable_variable(name, "give a URL such as `http://localhost:4318`".to_owned())
    })
}

/// Appends the path of a signal to the base endpoint.
fn join_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// Parses `name=value,name=value` with percent-encoded values. Errors do not repeat the value: it may be a secret.
fn parse_pairs(name: &'static str, text: Option<&str>) -> Result<Vec<(String, String)>, CliError> {
    let wrong = || unusable_variable(name, "give `name=value`, with commas between".to_owned());
    let members = text.unwrap_or_default().split(',').map(str::trim);
    let members = members.filter(|member| !member.is_empty());
    let members = members.map(|member| {
        let (name, value) = member.split_once('=').ok_or_else(wrong)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
        Ok((name.trim().to_owned(), value.into_owned()))
    });
    members.collect()
}

fn parse_headers(variable: &'static str, text: Option<&str>) -> Result<HeaderMap, CliError> {
    let mut headers = HeaderMap::new();
    for (name, value) in parse_pairs(variable, text)? {
        let wrong = || unusable_variable(variable, "a header cannot be sent".to_owned());
        let name = HeaderName::try_from(name).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn unusable_variable(name: &'static str, problem: String) -> CliError {
    CliError::Telemetry { name, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> Result<Option<OtlpOptions>, String> {
        let variable = |name: &'static str| {
            let given = variables.iter().find(|(known, _)| *known == name);
            Ok(given.map(|(_, value)| (*value).to_owned()))
        };
        read_otlp_settings(None, variable).map_err(|failure| failure.full_message())
    }

    #[test]
    fn the_opentelemetry_variables_set_the_collectors() {
        assert!(given(&[]).unwrap().is_none());
        let endpoint = (ENDPOINT, "http://collector:4318/base/");
        assert!(given(&[endpoint, (DISABLED, "TRUE")]).unwrap().is_none());
        let otlp = given(&[
            endpoint,
            (TRACES.endpoint, "https://traces.example/take"),
            (HEADERS, "authorization=Bearer%20t, x-tenant=a"),
            (TRACES.headers, "api-key=other"),
            (TIMEOUT, "500"),
            (METRICS.timeout, "700"),
            (RESOURCE, "service.name=ignored,deployment.environment.name=test"),
            (SERVICE, "crib"),
        ]);
        let otlp = otlp.unwrap().unwrap();
        let (metrics, traces) = (otlp.metrics.unwrap(), otlp.traces.unwrap());
        assert_eq!(metrics.url.as_str(), "http://collector:4318/base/v1/metrics");
        assert_eq!(traces.url.as_str(), "https://traces.example/take");
        assert_eq!(
            (metrics.headers.len(), &metrics.headers["authorization"]),
            (2, &"Bearer t".parse().unwrap())
        );
        assert_eq!(
            (traces.headers.len(), &traces.headers["api-key"]),
            (1, &"other".parse().unwrap())
        );
        let times = [metrics.timeout, traces.timeout].map(|time| time.as_millis());
        assert_eq!((times, otlp.every.as_secs()), ([700, 500], 60));
        assert_eq!(otlp.resource[0].1, "test");
        assert_eq!(otlp.resource[1], ("service.name".to_owned(), "crib".to_owned()));
        let quiet = given(&[endpoint, (TRACES.exporter, "none")]).unwrap().unwrap();
        assert!(quiet.traces.is_none() && quiet.metrics.is_some());
        let asked = [(TRACES.exporter, "console, otlp"), (METRICS.exporter, "prometheus")];
        let asked = given(&[endpoint, asked[0], asked[1]]).unwrap().unwrap();
        assert!(asked.traces.is_some() && asked.metrics.is_none());
    }

    #[test]
    fn a_protocol_applies_to_all_signals_or_to_one() {
        let endpoint = (ENDPOINT, "http://collector:4318");
        let protocols = |variables: &[(&str, &str)]| {
            let otlp = given(&[&[endpoint], variables].concat()).unwrap()?;
            let of = |collector: Option<OtlpCollector>| collector.map(|it| it.protocol);
            Some((of(otlp.metrics), of(otlp.traces)))
        };
        let (json, protobuf) = (Some(OtlpProtocol::Json), Some(OtlpProtocol::Protobuf));
        assert_eq!(protocols(&[]), Some((protobuf, protobuf)));
        assert_eq!(protocols(&[(PROTOCOL, "http/protobuf")]), Some((protobuf, protobuf)));
        assert_eq!(protocols(&[(PROTOCOL, "http/json")]), Some((json, json)));
        let own = (TRACES.protocol, "http/protobuf");
        assert_eq!(protocols(&[(PROTOCOL, "http/json"), own]), Some((json, protobuf)));
        assert_eq!(protocols(&[(PROTOCOL, "grpc"), own]), Some((None, protobuf)));
        assert_eq!(protocols(&[(PROTOCOL, "grpc")]), None);
    }

    #[test]
    fn the_endpoint_of_an_unsupported_protocol_is_not_parsed() {
        let endpoint = (ENDPOINT, "collector.internal:4317");
        assert!(given(&[endpoint, (PROTOCOL, "grpc")]).unwrap().is_none());
        assert!(given(&[endpoint]).err().unwrap().contains(ENDPOINT));
    }

    #[test]
    fn an_unusable_variable_is_reported_without_its_secret() {
        let endpoint = (ENDPOINT, "http://collector:4318");
        for (name, value) in [
            (TIMEOUT, "0"),
            (INTERVAL, "soon"),
            (HEADERS, "hunter2"),
            (HEADERS, "x y=hunter2"),
            (HEADERS, "x=hunter2%0a"),
            (METRICS.endpoint, "collector:4318"),
        ] {
            let said = given(&[endpoint, (name, value)]).err().unwrap();
            assert!(said.contains(name) && !said.contains("hunter2"), "{said}");
        }
    }
}
