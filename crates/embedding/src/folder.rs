//! Reads the files of a model folder within size limits, and digests them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use model::Digest;
use serde::de::DeserializeOwned;

use crate::InvalidModel;

pub(crate) struct Folder {
    path: PathBuf,
    digests: Vec<Digest>,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), digests: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path.join(name).is_file()
    }

    pub(crate) fn bytes(&mut self, name: &str, most: u64) -> Result<Vec<u8>, InvalidModel> {
        let path = self.path.join(name);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
        read.map_err(|source| InvalidModel::Read { path: path.clone(), source })?;
        if most < bytes.len() as u64 {
            return Err(InvalidModel::TooLarge { path, most });
        }
        self.digests.push(Digest::of(&bytes));
        Ok(bytes)
    }

    pub(crate) fn json<T: DeserializeOwned>(
        &mut self,
        name: &str,
        most: u64,
    ) -> Result<T, InvalidModel> {
        let bytes = self.bytes(name, most)?;
        serde_json::from_slice(&bytes)
            .map_err(|source| InvalidModel::Json { path: self.path.join(name), source })
    }

    pub(crate) fn unusable(&self, name: &str, why: impl Into<String>) -> InvalidModel {
        InvalidModel::Unusable { path: self.path.join(name), why: why.into() }
    }

    /// Digest of all files read so far, in reading order.
    pub(crate) fn digest(&self) -> Digest {
        let all: Vec<u8> = self.digests.iter().flat_map(|it| *it.as_bytes()).collect();
        Digest::of(all)
    }
}
