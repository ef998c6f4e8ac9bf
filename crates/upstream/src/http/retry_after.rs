//! The `Retry-After` header (RFC 9110, section 10.2.3).

use httpdate::parse_http_date;

use super::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// The delay in seconds, if the header is present. A date is compared with the response's own `Date` header, because
/// the clocks of the two machines may differ.
pub fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let said = header_text(headers, RETRY_AFTER)?;
    if !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_digit()) {
        return said.parse().ok();
    }
    let moment = |text| parse_http_date(text).ok();
    let (then, now) = (moment(said)?, moment(header_text(headers, DATE)?)?);
    // A date in the past means now.
    Some(then.duration_since(now).unwrap_or_default().as_secs())
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(date: Option<&str>, wish: &str) -> Option<u64> {
        let date = date.map(|date| (DATE, date.parse().unwrap()));
        retry_after(&date.into_iter().chain([(RETRY_AFTER, wish.parse().unwrap())]).collect())
    }

    #[test]
    fn a_delay_is_a_number_of_seconds() {
        for (wish, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999", None),
            ("NaN", None),
            ("+1", None),
            ("-1", None),
            ("1e3", None),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(at(None, wish), seconds, "{wish}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn a_date_is_compared_with_the_date_of_the_response() {
        let then = "Wed, 21 Oct 2015 07:28:00 GMT";
        assert_eq!(at(Some("Wed, 21 Oct 2015 07:26:30 GMT"), then), Some(90));
        assert_eq!(at(Some("Wed, 21 Oct 2015 07:28:01 GMT"), then), Some(0));
        assert_eq!(at(Some("Tue, 20 Oct 2015 07:28:00 GMT"), then), Some(24 * 60 * 60));
        // Obsolete date formats that recipients must accept (RFC 9110, section 5.6.7).
        for now in ["Wednesday, 21-Oct-15 07:26:30 GMT", "Wed Oct 21 07:26:30 2015"] {
            assert_eq!(at(Some(now), then), Some(90), "{now}");
        }
        for nothing in [None, Some("now"), Some("")] {
            assert_eq!(at(nothing, then), None, "{nothing:?}");
        }
    }
}
