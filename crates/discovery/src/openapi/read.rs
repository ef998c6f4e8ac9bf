//! Reads a specification and the documents it refers to.
//!
//! A specification in a file may refer only to files below its folder. One from a URL may refer to documents of the
//! same origin, if the settings of the source allow it. Nothing else is opened; an operation that needs it becomes a
//! warning.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use upstream::limits::{LimitError, read_file};
use url::Url;

use super::Finding;
use super::documents::{Documents, relative_to};
use crate::DiscoveryError;
use crate::text::{self, TextError};

/// The maximum size of a specification and all documents it refers to, in bytes.
pub(super) const SIZE_LIMIT: u64 = 64 * 1024 * 1024;
/// The maximum length of a reference to another document, in characters.
const REFERENCE_LIMIT: usize = 512;
/// The maximum number of documents that one specification may refer to.
const DOCUMENT_LIMIT: usize = 10_000;

/// The origin of a specification.
#[derive(Clone, Debug)]
pub enum Address {
    /// The settings contain the text itself.
    Inline,
    /// A file.
    File(PathBuf),
    /// A URL.
    Url(Url),
}

/// The texts of a specification and of the documents it refers to.
#[derive(Debug)]
pub struct Specification {
    address: Address,
    /// Address and text of each document, the specification first.
    texts: Vec<(String, String)>,
    /// References to other documents, each with the index of the document that contains it.
    references: Vec<(usize, String)>,
    known: HashSet<String>,
    findings: Vec<Finding>,
    read: u64,
}

impl Specification {
    /// Takes the text of a specification. If the specification is a file, also reads the files it refers to.
    pub fn read(address: Address, bytes: impl Into<Vec<u8>>) -> Result<Self, DiscoveryError> {
        let name = match &address {
            Address::Inline => String::new(),
            Address::File(path) => file_name(path),
            Address::Url(url) => url.as_str().to_owned(),
        };
        let mut specification = Self {
            address,
            texts: Vec::new(),
            references: Vec::new(),
            known: HashSet::new(),
            findings: Vec::new(),
            read: 0,
        };
        specification.add_text(name, bytes.into())?;
        if let Address::File(path) = &specification.address {
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            specification.read_files(&folder)?;
        }
        Ok(specification)
    }

    /// Reads a specification from a file.
    pub fn open(path: &Path) -> Result<Self, DiscoveryError> {
        let bytes = read_file(path, SIZE_LIMIT).map_err(|source| DiscoveryError::Unreadable {
            what: path.display().to_string(),
            source,
        })?;
        Self::read(Address::File(path.to_owned()), bytes)
    }

    /// Parses all documents, and returns findings about unreadable ones.
    pub(super) fn parse(&self) -> Result<(Documents<'_>, Vec<Finding>), DiscoveryError> {
        let mut findings = self.findings.clone();
        let mut texts = self.texts.iter();
        let (address, text) = texts.next().expect("a specification has a text");
        let mut documents = Documents::new(address, text::parse(text)?);
        for (address, text) in texts {
            match text::parse(text) {
                Ok(node) => documents.add(address.clone(), node),
                Err(error) => {
                    findings.push(unreadable(address, &error));
                    documents.skip(address.clone());
                }
            }
        }
        Ok((documents, findings))
    }

    /// The addresses of the documents that were read, the specification first.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|(address, _)| address.as_str())
    }

    /// The text of the specification itself.
    pub fn text(&self) -> &str {
        &self.texts[0].1
    }

    pub(super) fn references(&self) -> &[(usize, String)] {
        &self.references
    }

    /// The URL of the specification, if it was fetched.
    pub fn url(&self) -> Option<&Url> {
        match &self.address {
            Address::Url(url) => Some(url),
            Address::Inline | Address::File(_) => None,
        }
    }

    /// The URLs of referenced documents that were not read yet and have the origin of the specification.
    pub fn missing(&self) -> Vec<Url> {
        let Some(own) = self.url() else { return Vec::new() };
        let mut missing: Vec<Url> = self
            .wanted()
            .filter_map(|address| Url::parse(&address).ok())
            .filter(|url| url.origin() == own.origin())
            .collect();
        missing.sort();
        missing.dedup();
        missing.truncate(DOCUMENT_LIMIT.saturating_sub(self.texts.len()));
        missing
    }

    /// Adds a referenced document.
    pub fn add(&mut self, url: &Url, bytes: impl Into<Vec<u8>>) -> Result<(), DiscoveryError> {
        self.add_referred(url.as_str().to_owned(), bytes.into())
    }

    /// The addresses of referenced documents that were not read yet.
    fn wanted(&self) -> impl Iterator<Item = String> + '_ {
        self.references.iter().filter_map(|(document, reference)| {
            let (address, _) = reference.split_once('#').unwrap_or((reference, ""));
            if address.is_empty() {
                return None;
            }
            let address = relative_to(&self.texts[*document].0, address)?;
            (!self.known.contains(&address)).then_some(address)
        })
    }

    /// Reads all referenced files, also those referenced by other files. A missing or unreadable file affects only the
    /// operations that need it.
    fn read_files(&mut self, folder: &Path) -> Result<(), DiscoveryError> {
        let Ok(home) = folder_of(folder).canonicalize() else { return Ok(()) };
        let mut tried = HashSet::new();
        loop {
            let mut wanted: Vec<String> =
                self.wanted().filter(|address| !tried.contains(address)).collect();
            wanted.sort();
            wanted.dedup();
            if wanted.is_empty() {
                return Ok(());
            }
            for address in wanted {
                tried.insert(address.clone());
                let Ok(file) = home.join(&address).canonicalize() else { continue };
                // A symbolic link could lead out of the folder.
                if !file.starts_with(&home) {
                    let message = format!(
                        "`{address}` leads out of the specification's folder and is not read"
                    );
                    self.findings.push(Finding::new("reference_refused", "", message));
                    continue;
                }
                match read_file(&file, SIZE_LIMIT.saturating_sub(self.read)) {
                    Ok(bytes) => self.add_referred(address, bytes)?,
                    Err(LimitError::TooLarge { .. }) => return Err(too_large()),
                    Err(_) => {}
                }
            }
        }
    }

    /// Adds a referenced document; one that is not text affects only the operations that need it.
    fn add_referred(&mut self, address: String, bytes: Vec<u8>) -> Result<(), DiscoveryError> {
        match self.add_text(address.clone(), bytes) {
            Err(DiscoveryError::Text(error)) => {
                self.findings.push(unreadable(&address, &error));
                self.known.insert(address);
                Ok(())
            }
            added => added,
        }
    }

    fn add_text(&mut self, address: String, bytes: Vec<u8>) -> Result<(), DiscoveryError> {
        self.read += bytes.len() as u64;
        self.check_limits()?;
        let text = text::decode(bytes)?;
        let document = self.texts.len();
        let mut found = references(&text);
        if document == 0 {
            // References of the specification to itself are not other documents.
            found.retain(|reference| !reference.starts_with('#'));
        }
        self.references.extend(found.into_iter().map(|reference| (document, reference)));
        self.known.insert(address.clone());
        self.texts.push((address, text));
        Ok(())
    }

    fn check_limits(&self) -> Result<(), DiscoveryError> {
        match SIZE_LIMIT < self.read || DOCUMENT_LIMIT < self.texts.len() {
            true => Err(too_large()),
            false => Ok(()),
        }
    }
}

fn unreadable(address: &str, error: &TextError) -> Finding {
    Finding::new("unreadable_document", "", format!("`{address}` cannot be read: {error}"))
}

fn too_large() -> DiscoveryError {
    DiscoveryError::TooLarge { megabytes: SIZE_LIMIT / 1024 / 1024, documents: DOCUMENT_LIMIT }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn folder_of(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// The distinct references in a text, found by their spelling alone: a false match costs one needless file read, and
/// most specifications have no references to other documents at all.
fn references(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, word) in text.match_indices("$ref") {
        let rest = text.get(at + word.len()..).unwrap_or_default();
        let rest = rest.trim_start_matches(['"', '\'']);
        let Some(value) = rest.trim_start().strip_prefix(':') else { continue };
        let value = value.trim_start();
        let end: &[char] = match value.chars().next() {
            // `#` starts a YAML comment.
            Some('#') | None => continue,
            Some('"') => &['"'],
            Some('\'') => &['\''],
            Some(_) => &['\n', '\r', ',', '}', ' '],
        };
        let value = value.trim_start_matches(['"', '\'']);
        let end = value.char_indices().take(REFERENCE_LIMIT).find(|(_, c)| end.contains(c));
        let value = end.and_then(|(at, _)| value.get(..at)).unwrap_or_default().replace("\\/", "/");
        if !value.is_empty() {
            found.insert(value);
        }
    }
    found
}
