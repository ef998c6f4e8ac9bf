//! Reads the files of a model folder within size limits, and digests them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use model::Digest;
use serde::de::DeserializeOwned;

use crate::InvalidModel;

pub(crate) struct ModelFolder {
    path: PathBuf,
    digests: Vec<Digest>,
}

impl ModelFolder {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), digests: Vec::new() }
    }

    pub(crate) fn file_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn has_file(&self, name: &str) -> bool {
        self.path.join(name).is_file()
    }

    pub(crate) fn read_bytes(&mut self, name: &str, most: u64) -> Result<Vec<u8>, InvalidModel> {
        let path = self.path.join(name);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
        read.map_err(|source| InvalidModel::Read { path: path.clone(), source })?;
        if most < bytes.len() as u64 {
            return Err(InvalidModel::TooLarge { path, most });
        }
        self.digests.push(Digest::of_bytes(&bytes));
        Ok(bytes)
    }

    pub(crate) fn read_json<T: DeserializeOwned>(
        &mut self,
        name: &str,
        most: u64,
    ) -> Result<T, InvalidModel> {
        let bytes = self.read_bytes(name, most)?;
        serde_json::from_slice(&bytes)
            .map_err(|source| InvalidModel::Json { path: self.path.join(name), source })
    }

    pub(crate) fn unusable_file(&self, name: &str, why: impl Into<String>) -> InvalidModel {
        InvalidModel::Unusable { path: self.path.join(name), why: why.into() }
    }

    /// Digest of all files read so far, in reading order.
    pub(crate) fn combined_digest(&self) -> Digest {
        let all: Vec<u8> = self.digests.iter().flat_map(|it| *it.as_bytes()).collect();
        Digest::of_bytes(all)
    }
}
