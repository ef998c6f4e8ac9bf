//! Reads a specification and the documents it refers to.
//!
//! A specification in a file may refer only to files below its folder. One from a URL may refer to documents of the
//! same origin, if the settings of the source allow it. Nothing else is opened; an operation that needs it becomes a
//! warning.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use json::document_text;
use json::document_text::DocumentError;
use limits::bounded_read::{BoundedReadError, read_file};
use url::Url;

use super::OpenApiFinding;
use super::specification_documents::{SpecificationDocuments, join_address};
use crate::DiscoveryError;

/// The maximum size of a specification and all documents it refers to, in bytes.
pub(super) const MAX_SPECIFICATION_BYTES: u64 = 64 * 1024 * 1024;
/// The maximum length of a reference to another document, in characters.
const MAX_REFERENCE_CHARS: usize = 512;
/// The maximum number of documents that one specification may refer to.
const MAX_DOCUMENTS: usize = 10_000;

/// The origin of a specification.
#[derive(Clone, Debug)]
pub enum SpecificationAddress {
    /// The settings contain the text itself.
    Inline,
    File(PathBuf),
    Url(Url),
}

/// The texts of a specification and of the documents it refers to.
#[derive(Debug)]
pub struct OpenApiSpecification {
    address: SpecificationAddress,
    /// Address and text of each document, the specification first.
    texts: Vec<(String, String)>,
    /// References to other documents, each with the index of the document that contains it.
    references: Vec<(usize, String)>,
    known_addresses: HashSet<String>,
    findings: Vec<OpenApiFinding>,
    bytes_read: u64,
}

impl OpenApiSpecification {
    /// Takes the text of a specification. If the specification is a file, also reads the files it refers to.
    pub fn from_bytes(
        address: SpecificationAddress,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<Self, DiscoveryError> {
        let name = match &address {
            SpecificationAddress::Inline => String::new(),
            SpecificationAddress::File(path) => file_name(path),
            SpecificationAddress::Url(url) => url.as_str().to_owned(),
        };
        let mut specification = Self {
            address,
            texts: Vec::new(),
            references: Vec::new(),
            known_addresses: HashSet::new(),
            findings: Vec::new(),
            bytes_read: 0,
        };
        specification.add_document_text(name, bytes.into())?;
        if let SpecificationAddress::File(path) = &specification.address {
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            specification.read_files(&folder)?;
        }
        Ok(specification)
    }

    /// Reads a specification from a file.
    pub fn open_file(path: &Path) -> Result<Self, DiscoveryError> {
        let bytes = read_file(path, MAX_SPECIFICATION_BYTES).map_err(|source| {
            DiscoveryError::Unreadable { what: path.display().to_string(), source }
        })?;
        Self::from_bytes(SpecificationAddress::File(path.to_owned()), bytes)
    }

    /// Parses all documents, and returns findings about unreadable ones.
    pub(super) fn parse_documents(
        &self,
    ) -> Result<(SpecificationDocuments<'_>, Vec<OpenApiFinding>), DiscoveryError> {
        let mut findings = self.findings.clone();
        let mut texts = self.texts.iter();
        let (address, text) = texts.next().expect("a specification has a text");
        let mut documents =
            SpecificationDocuments::new(address, document_text::parse_document(text)?);
        for (address, text) in texts {
            match document_text::parse_document(text) {
                Ok(node) => documents.add_document(address.clone(), node),
                Err(error) => {
                    findings.push(unreadable_document(address, &error));
                    documents.add_unreadable_document(address.clone());
                }
            }
        }
        Ok((documents, findings))
    }

    /// The addresses of the documents that were read, the specification first.
    pub fn document_addresses(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|(address, _)| address.as_str())
    }

    /// The text of the specification itself.
    pub fn root_text(&self) -> &str {
        &self.texts[0].1
    }

    pub(super) fn references(&self) -> &[(usize, String)] {
        &self.references
    }

    /// The URL of the specification, if it was fetched.
    pub fn url(&self) -> Option<&Url> {
        match &self.address {
            SpecificationAddress::Url(url) => Some(url),
            SpecificationAddress::Inline | SpecificationAddress::File(_) => None,
        }
    }

    /// The URLs of referenced documents that were not read yet and have the origin of the specification.
    pub fn missing_documents(&self) -> Vec<Url> {
        let Some(own) = self.url() else { return Vec::new() };
        let mut missing: Vec<Url> = self
            .unread_addresses()
            .filter_map(|address| Url::parse(&address).ok())
            .filter(|url| url.origin() == own.origin())
            .collect();
        missing.sort();
        missing.dedup();
        missing.truncate(MAX_DOCUMENTS.saturating_sub(self.texts.len()));
        missing
    }

    /// Adds a referenced document.
    pub fn add_document(
        &mut self,
        url: &Url,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<(), DiscoveryError> {
        self.add_referenced_document(url.as_str().to_owned(), bytes.into())
    }

    /// The addresses of referenced documents that were not read yet.
    fn unread_addresses(&self) -> impl Iterator<Item = String> + '_ {
        self.references.iter().filter_map(|(document, reference)| {
            let (address, _) = reference.split_once('#').unwrap_or((reference, ""));
            if address.is_empty() {
                return None;
            }
            let address = join_address(&self.texts[*document].0, address)?;
            (!self.known_addresses.contains(&address)).then_some(address)
        })
    }

    /// Reads all referenced files, also those referenced by other files. A missing or unreadable file affects only the
    /// operations that need it.
    fn read_files(&mut self, folder: &Path) -> Result<(), DiscoveryError> {
        let Ok(home) = non_empty_folder(folder).canonicalize() else { return Ok(()) };
        let mut tried = HashSet::new();
        loop {
            let mut wanted: Vec<String> =
                self.unread_addresses().filter(|address| !tried.contains(address)).collect();
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
                    self.findings.push(OpenApiFinding::new("reference_refused", "", message));
                    continue;
                }
                match read_file(&file, MAX_SPECIFICATION_BYTES.saturating_sub(self.bytes_read)) {
                    Ok(bytes) => self.add_referenced_document(address, bytes)?,
                    Err(BoundedReadError::TooLarge { .. }) => return Err(too_large_error()),
                    Err(_) => {}
                }
            }
        }
    }

    /// Adds a referenced document; one that is not text affects only the operations that need it.
    fn add_referenced_document(
        &mut self,
        address: String,
        bytes: Vec<u8>,
    ) -> Result<(), DiscoveryError> {
        match self.add_document_text(address.clone(), bytes) {
            Err(DiscoveryError::InvalidText(error)) => {
                self.findings.push(unreadable_document(&address, &error));
                self.known_addresses.insert(address);
                Ok(())
            }
            added => added,
        }
    }

    fn add_document_text(&mut self, address: String, bytes: Vec<u8>) -> Result<(), DiscoveryError> {
        self.bytes_read += bytes.len() as u64;
        self.check_limits()?;
        let text = document_text::decode_document(bytes)?;
        let document = self.texts.len();
        let mut found = find_references(&text);
        if document == 0 {
            // References of the specification to itself are not other documents.
            found.retain(|reference| !reference.starts_with('#'));
        }
        self.references.extend(found.into_iter().map(|reference| (document, reference)));
        self.known_addresses.insert(address.clone());
        self.texts.push((address, text));
        Ok(())
    }

    fn check_limits(&self) -> Result<(), DiscoveryError> {
        match MAX_SPECIFICATION_BYTES < self.bytes_read || MAX_DOCUMENTS < self.texts.len() {
            true => Err(too_large_error()),
            false => Ok(()),
        }
    }
}

fn unreadable_document(address: &str, error: &DocumentError) -> OpenApiFinding {
    OpenApiFinding::new("unreadable_document", "", format!("`{address}` cannot be read: {error}"))
}

fn too_large_error() -> DiscoveryError {
    DiscoveryError::TooLarge {
        megabytes: MAX_SPECIFICATION_BYTES / 1024 / 1024,
        documents: MAX_DOCUMENTS,
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn non_empty_folder(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// The distinct references in a text, found by their spelling alone: a false match costs one needless file read, and
/// most specifications have no references to other documents at all.
fn find_references(text: &str) -> BTreeSet<String> {
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
        let end = value.char_indices().take(MAX_REFERENCE_CHARS).find(|(_, c)| end.contains(c));
        let value = end.and_then(|(at, _)| value.get(..at)).unwrap_or_default().replace("\\/", "/");
        if !value.is_empty() {
            found.insert(value);
        }
    }
    found
}
