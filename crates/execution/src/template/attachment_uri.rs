//! Files in arguments: `data:image/png;name=cat.png;base64,iVBORw…` (RFC 2397; `name` as in browsers and MCP hosts).

use base64::Engine as _;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use percent_encoding::percent_decode_str;

/// Padding is optional, because many encoders omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A file passed as a data URI.
#[derive(Debug, PartialEq)]
pub(super) struct DataUriFile {
    pub(super) content_type: Option<String>,
    pub(super) file_name: Option<String>,
    pub(super) bytes: Vec<u8>,
}

impl DataUriFile {
    /// `None` if the text is not a base64 data URI; then it is an ordinary text.
    pub(super) fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        let (head, encoded) = text.strip_prefix("data:")?.split_once(',')?;
        let head = head.strip_suffix(";base64")?;
        let (names, kept): (Vec<&str>, Vec<&str>) =
            head.split(';').partition(|part| part.starts_with("name="));
        let content_type = kept.join(";");
        let file_name = names.first().and_then(|name| name.strip_prefix("name="));
        let Ok(bytes) = BASE64.decode(encoded) else {
            return Some(Err("is a data URI, but what follows `base64,` is not base64"));
        };
        Some(Ok(Self {
            content_type: Some(content_type).filter(|text| is_content_type(text)),
            file_name: file_name.map(|name| percent_decode_str(name).decode_utf8_lossy().into()),
            bytes,
        }))
    }
}

/// Whether a text is one concrete media type, in characters that cannot end a header.
pub(super) fn is_content_type(text: &str) -> bool {
    text.contains('/')
        && !text.contains(['*', ','])
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_uri_is_a_file_with_a_type_and_an_optional_name() {
        let file = DataUriFile::parse("data:text/plain;charset=utf-8;name=a%20b.txt;base64,aGk=");
        let expected = DataUriFile {
            content_type: Some("text/plain;charset=utf-8".to_owned()),
            file_name: Some("a b.txt".to_owned()),
            bytes: b"hi".to_vec(),
        };
        assert_eq!(file, Some(Ok(expected)));
        let bare = DataUriFile::parse("data:;base64,aGk").unwrap().unwrap();
        assert_eq!((bare.content_type, bare.file_name, bare.bytes), (None, None, b"hi".to_vec()));
    }

    #[test]
    fn any_other_text_is_not_a_file() {
        for text in ["hello", "data:", "data:text/plain,hi", "data: 7, base64", ""] {
            assert_eq!(DataUriFile::parse(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_base64_is_an_error() {
        assert!(DataUriFile::parse("data:image/png;base64,%%%").unwrap().is_err());
    }

    #[test]
    fn a_media_type_cannot_inject_headers() {
        let file = DataUriFile::parse("data:a/b\r\nX-Evil: 1;base64,aGk=").unwrap().unwrap();
        assert_eq!(file.content_type, None);
    }
}
