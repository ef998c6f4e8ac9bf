//! Where what is measured is pushed to: the variables that OpenTelemetry has for it, and one option that counts more.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use toolcrib::telemetry::Otlp;
use upstream::http::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::failure::Failure;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const SERVICE: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const METRICS_EXPORTER: &str = "OTEL_METRICS_EXPORTER";
const TRACES_EXPORTER: &str = "OTEL_TRACES_EXPORTER";

/// In milliseconds, as OpenTelemetry has them.
const USUAL_TIMEOUT: u64 = 10_000;
const USUAL_INTERVAL: u64 = 60_000;

/// What is wanted; none if nothing is pushed anywhere.
pub(super) fn read(
    option: Option<&Url>,
    variable: impl Fn(&'static str) -> Result<Option<String>, Failure>,
) -> Result<Option<Otlp>, Failure> {
    if variable(DISABLED)?.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let base = match option {
        Some(url) => Some(url.clone()),
        None => variable(ENDPOINT)?.map(|text| url(ENDPOINT, &text)).transpose()?,
    };
    let place = |own: &'static str, exporter: &'static str, path: &str| {
        if variable(exporter)?.is_some_and(|text| text == "none") {
            return Ok(None);
        }
        match variable(own)? {
            Some(text) => url(own, &text).map(Some),
            None => Ok(base.as_ref().map(|base| below(base, path))),
        }
    };
    let metrics = place(METRICS_ENDPOINT, METRICS_EXPORTER, "v1/metrics")?;
    let traces = place(TRACES_ENDPOINT, TRACES_EXPORTER, "v1/traces")?;
    if metrics.is_none() && traces.is_none() {
        return Ok(None);
    }
    if let Some(protocol) = variable(PROTOCOL)?.filter(|protocol| protocol != "http/json") {
        let known = "only `http/json` is spoken here, which collectors take where they take \
                     `http/protobuf`: leave the variable out";
        let protocol: String = protocol.chars().take(40).collect();
        return Err(unusable(PROTOCOL, format!("`{protocol}` is not spoken; {known}")));
    }
    let time = |name: &'static str, usual: u64| {
        let text = variable(name)?;
        let time = text.map_or(Ok(usual), |text| text.parse());
        let time = time.ok().filter(|time| 0 < *time);
        let time = time.ok_or_else(|| unusable(name, "give milliseconds".to_owned()))?;
        Ok::<_, Failure>(Duration::from_millis(time))
    };
    let mut resource = pairs(RESOURCE, variable(RESOURCE)?.as_deref())?;
    let service = variable(SERVICE)?;
    if service.is_some() || !resource.iter().any(|(name, _)| name == "service.name") {
        resource.retain(|(name, _)| name != "service.name");
        let service = service.unwrap_or_else(|| "toolcrib".to_owned());
        resource.push(("service.name".to_owned(), service));
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    resource.push(("service.version".to_owned(), version));
    Ok(Some(Otlp {
        metrics,
        traces,
        headers: headers(variable(HEADERS)?.as_deref())?,
        timeout: time(TIMEOUT, USUAL_TIMEOUT)?,
        every: time(INTERVAL, USUAL_INTERVAL)?,
        resource,
    }))
}

fn url(name: &'static str, text: &str) -> Result<Url, Failure> {
    let url = text.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| unusable(name, "give a URL such as `http://localhost:4318`".to_owned()))
}

/// Signals have paths below that of the endpoint.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// `name=value,name=value`, with percent signs for what cannot stand there. What is wrong is not repeated: it may be secret.
fn pairs(name: &'static str, text: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
    let wrong = || unusable(name, "give `name=value`, with commas between".to_owned());
    let members = text.unwrap_or_default().split(',').map(str::trim);
    let members = members.filter(|member| !member.is_empty());
    let members = members.map(|member| {
        let (name, value) = member.split_once('=').ok_or_else(wrong)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
        Ok((name.trim().to_owned(), value.into_owned()))
    });
    members.collect()
}

fn headers(text: Option<&str>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs(HEADERS, text)? {
        let wrong = || unusable(HEADERS, "a header cannot be sent".to_owned());
        let name = HeaderName::try_from(name).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn unusable(name: &'static str, problem: String) -> Failure {
    Failure::Telemetry { name, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> Result<Option<Otlp>, String> {
        let variable = |name: &'static str| {
            let given = variables.iter().find(|(known, _)| *known == name);
            Ok(given.map(|(_, value)| (*value).to_owned()))
        };
        read(None, variable).map_err(|failure| failure.sentence())
    }

    #[test]
    fn the_variables_of_opentelemetry_say_where_to_push() {
        assert!(given(&[]).unwrap().is_none());
        let endpoint = (ENDPOINT, "http://collector:4318/base/");
        assert!(given(&[endpoint, (DISABLED, "TRUE")]).unwrap().is_none());
        let otlp = given(&[
            endpoint,
            (TRACES_ENDPOINT, "https://traces.example/take"),
            (HEADERS, "authorization=Bearer%20t, x-tenant=a"),
            (TIMEOUT, "500"),
            (RESOURCE, "service.name=ignored,deployment.environment.name=test"),
            (SERVICE, "crib"),
        ]);
        let otlp = otlp.unwrap().unwrap();
        assert_eq!(otlp.metrics.unwrap().as_str(), "http://collector:4318/base/v1/metrics");
        assert_eq!(otlp.traces.unwrap().as_str(), "https://traces.example/take");
        assert_eq!(otlp.headers["authorization"], "Bearer t");
        assert_eq!((otlp.timeout.as_millis(), otlp.every.as_secs()), (500, 60));
        assert_eq!(otlp.resource[0].1, "test");
        assert_eq!(otlp.resource[1], ("service.name".to_owned(), "crib".to_owned()));
        let quiet = given(&[endpoint, (TRACES_EXPORTER, "none")]).unwrap().unwrap();
        assert!(quiet.traces.is_none() && quiet.metrics.is_some());
    }

    #[test]
    fn what_cannot_be_used_is_said_and_no_secret_with_it() {
        let endpoint = (ENDPOINT, "http://collector:4318");
        for (name, value) in [
            (PROTOCOL, "grpc"),
            (TIMEOUT, "0"),
            (INTERVAL, "soon"),
            (HEADERS, "hunter2"),
            (HEADERS, "x y=hunter2"),
            (HEADERS, "x=hunter2%0a"),
            (METRICS_ENDPOINT, "collector:4318"),
        ] {
            let said = given(&[endpoint, (name, value)]).err().unwrap();
            assert!(said.contains(name) && !said.contains("hunter2"), "{said}");
        }
    }
}
