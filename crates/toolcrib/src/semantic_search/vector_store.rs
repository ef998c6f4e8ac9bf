//! Stores computed vectors under the digest of model and text: in memory, and in a file that is compacted when most of
//! it is unused.
//!
//! A record is a digest, a length, a vector and a checksum. Reading stops at the first record with a wrong checksum. A
//! truncated write therefore loses only its own records.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Digest;
use search::EmbeddingVector;

/// Magic bytes at the start of the file.
const FILE_HEADER: &[u8] = b"toolcrib vectors 1\n";
/// Maximum number of bytes that are read.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Number of unused records that are tolerated before the file is compacted.
const MAX_UNUSED_RECORDS: usize = 10_000;
const DIGEST_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;

type VectorsByDigest = HashMap<Digest, Arc<EmbeddingVector>>;

pub(super) struct VectorStore {
    file: Option<Arc<PathBuf>>,
    vectors: Mutex<VectorsByDigest>,
    /// Number of records in the file; `None` while it is unusable.
    record_count: Mutex<Option<usize>>,
}

impl VectorStore {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file: file.map(Arc::new), vectors: Mutex::default(), record_count: Mutex::default() }
    }

    fn lock_vectors(&self) -> MutexGuard<'_, VectorsByDigest> {
        self.vectors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_record_count(&self) -> MutexGuard<'_, Option<usize>> {
        self.record_count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<EmbeddingVector>> {
        self.lock_vectors().get(digest).cloned()
    }

    /// Loads the vectors of the file. A file in another format is not modified.
    pub(super) async fn load_file(&self) {
        let Some(file) = self.file.clone() else { return };
        let read = tokio::task::spawn_blocking(move || open_vector_file(&file)).await;
        match read {
            Ok(Ok(vectors)) => {
                *self.lock_record_count() = Some(vectors.len());
                *self.lock_vectors() = vectors;
            }
            Ok(Err(error)) => tracing::warn!(%error, "vectors are kept in memory only: {error}"),
            Err(_) => {}
        }
    }

    pub(super) async fn store_vectors(&self, vectors: Vec<(Digest, Arc<EmbeddingVector>)>) {
        self.lock_vectors().extend(vectors.iter().cloned());
        let Some(count) = *self.lock_record_count() else { return };
        *self.lock_record_count() = Some(count + vectors.len());
        self.write_file(move |file| append_records(file, &vectors)).await;
    }

    /// Drops vectors that only this store still references.
    pub(super) async fn forget_unused(&self) {
        let left: Vec<(Digest, Arc<EmbeddingVector>)> = {
            let mut known = self.lock_vectors();
            known.retain(|_, vector| 1 < Arc::strong_count(vector));
            known.iter().map(|(digest, vector)| (*digest, Arc::clone(vector))).collect()
        };
        let Some(count) = *self.lock_record_count() else { return };
        if 2 * left.len() + MAX_UNUSED_RECORDS < count {
            *self.lock_record_count() = Some(left.len());
            self.write_file(move |file| compact_file(file, &left)).await;
        }
    }

    async fn write_file(&self, write: impl FnOnce(&Path) -> io::Result<()> + Send + 'static) {
        let Some(file) = self.file.clone() else { return };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || write(&file)).await {
            tracing::warn!(%error, "vectors are not kept: {error}");
        }
    }
}

fn open_vector_file(path: &Path) -> io::Result<VectorsByDigest> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    }
    if bytes.is_empty() {
        std::fs::write(path, FILE_HEADER)?;
        return Ok(VectorsByDigest::new());
    }
    let Some(records) = bytes.strip_prefix(FILE_HEADER) else {
        let why = format!("`{}` is not a file of vectors", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    };
    let (vectors, used) = read_records(records);
    OpenOptions::new().write(true).open(path)?.set_len((FILE_HEADER.len() + used) as u64)?;
    Ok(vectors)
}

/// All records before the first invalid one, and their total length.
fn read_records(records: &[u8]) -> (VectorsByDigest, usize) {
    let (mut vectors, mut rest) = (VectorsByDigest::new(), records);
    while let Some((digest, vector, after)) = read_first_record(rest) {
        vectors.insert(digest, Arc::new(vector));
        rest = after;
    }
    (vectors, records.len() - rest.len())
}

fn read_first_record(bytes: &[u8]) -> Option<(Digest, EmbeddingVector, &[u8])> {
    let (digest, rest) = bytes.split_at_checked(DIGEST_BYTES)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (numbers, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (check, rest) = rest.split_at_checked(CHECKSUM_BYTES)?;
    let is_whole = check == record_checksum(digest, numbers);
    let both = Digest::from_bytes(digest).ok().zip(EmbeddingVector::from_bytes(numbers));
    both.filter(|_| is_whole).map(|(digest, vector)| (digest, vector, rest))
}

fn append_records(path: &Path, vectors: &[(Digest, Arc<EmbeddingVector>)]) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(&encode_records(vectors))
}

fn compact_file(path: &Path, vectors: &[(Digest, Arc<EmbeddingVector>)]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, [FILE_HEADER, &encode_records(vectors)].concat())?;
    std::fs::rename(beside, path)
}

fn encode_records(vectors: &[(Digest, Arc<EmbeddingVector>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (digest, vector) in vectors {
        let numbers = vector.to_bytes();
        let Ok(length) = u16::try_from(numbers.len()) else { continue };
        bytes.extend(digest.as_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(&numbers);
        bytes.extend(record_checksum(digest.as_bytes(), &numbers));
    }
    bytes
}

fn record_checksum(digest: &[u8], numbers: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let both = Digest::of_bytes([digest, numbers].concat());
    both.as_bytes().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(number: f32) -> Arc<EmbeddingVector> {
        Arc::new(EmbeddingVector::new(&[1.0, number]).unwrap())
    }

    #[tokio::test]
    async fn stored_vectors_are_read_again_up_to_a_truncated_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crib.db.vectors");
        let kept = || VectorStore::new(Some(path.clone()));
        let (one, two) = (Digest::of_bytes("one"), Digest::of_bytes("two"));
        let first = kept();
        first.load_file().await;
        first.store_vectors(vec![(one, vector(0.0)), (two, vector(2.0))]).await;
        let again = kept();
        again.load_file().await;
        assert_eq!(again.get(&one), Some(vector(0.0)));
        assert_eq!(again.get(&two), Some(vector(2.0)));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let cut = kept();
        cut.load_file().await;
        assert!(cut.get(&one).is_some() && cut.get(&two).is_none());
        cut.store_vectors(vec![(two, vector(2.0))]).await;
        let whole = kept();
        whole.load_file().await;
        assert!(whole.get(&one).is_some() && whole.get(&two).is_some());
        std::fs::write(&path, b"something else").unwrap();
        let other = kept();
        other.load_file().await;
        other.store_vectors(vec![(one, vector(1.0))]).await;
        assert_eq!(std::fs::read(&path).unwrap(), b"something else");
        assert!(other.get(&one).is_some());
    }

    #[tokio::test]
    async fn a_mostly_unused_file_is_compacted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crib.db.vectors");
        let kept = VectorStore::new(Some(path.clone()));
        kept.load_file().await;
        let many = (0..=MAX_UNUSED_RECORDS + 2)
            .map(|number| (Digest::of_bytes(number.to_string()), vector(1.0)));
        kept.store_vectors(many.collect()).await;
        let held = kept.get(&Digest::of_bytes("7"));
        kept.forget_unused().await;
        assert!(held.is_some() && kept.get(&Digest::of_bytes("8")).is_none());
        let again = VectorStore::new(Some(path));
        again.load_file().await;
        assert_eq!(again.get(&Digest::of_bytes("7")), held);
        assert_eq!(*again.lock_record_count(), Some(1));
    }
}
