//! Stores computed vectors under the digest of model and text: in memory, and in a file that is compacted when most of
//! it is unused.
//!
//! A record is a digest, a length, a vector and a checksum. Reading stops at the first record with a wrong checksum. A
//! truncated write therefore loses only its own records.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::search::Vector;
use model::Digest;

/// Magic bytes at the start of the file.
const HEAD: &[u8] = b"toolcrib vectors 1\n";
/// Maximum number of bytes that are read.
const LARGEST: u64 = 1 << 30;
/// Number of unused records that are tolerated before the file is compacted.
const LEFT: usize = 10_000;
const DIGEST: usize = 32;
const CHECK: usize = 4;

type Vectors = HashMap<Digest, Arc<Vector>>;

pub(super) struct KeptVectors {
    file: Option<Arc<PathBuf>>,
    known: Mutex<Vectors>,
    /// Number of records in the file; `None` while it is unusable.
    records: Mutex<Option<usize>>,
}

impl KeptVectors {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file: file.map(Arc::new), known: Mutex::default(), records: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Vectors> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn records(&self) -> MutexGuard<'_, Option<usize>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<Vector>> {
        self.known().get(digest).cloned()
    }

    /// Loads the vectors of the file. A file in another format is not modified.
    pub(super) async fn read(&self) {
        let Some(file) = self.file.clone() else { return };
        let read = tokio::task::spawn_blocking(move || open(&file)).await;
        match read {
            Ok(Ok(vectors)) => {
                *self.records() = Some(vectors.len());
                *self.known() = vectors;
            }
            Ok(Err(error)) => tracing::warn!(%error, "vectors are kept in memory only: {error}"),
            Err(_) => {}
        }
    }

    pub(super) async fn put(&self, vectors: Vec<(Digest, Arc<Vector>)>) {
        self.known().extend(vectors.iter().cloned());
        let Some(count) = *self.records() else { return };
        *self.records() = Some(count + vectors.len());
        self.write(move |file| append(file, &vectors)).await;
    }

    /// Drops vectors that only this store still references.
    pub(super) async fn forget_unused(&self) {
        let left: Vec<(Digest, Arc<Vector>)> = {
            let mut known = self.known();
            known.retain(|_, vector| 1 < Arc::strong_count(vector));
            known.iter().map(|(digest, vector)| (*digest, Arc::clone(vector))).collect()
        };
        let Some(count) = *self.records() else { return };
        if 2 * left.len() + LEFT < count {
            *self.records() = Some(left.len());
            self.write(move |file| write_anew(file, &left)).await;
        }
    }

    async fn write(&self, write: impl FnOnce(&Path) -> io::Result<()> + Send + 'static) {
        let Some(file) = self.file.clone() else { return };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || write(&file)).await {
            tracing::warn!(%error, "vectors are not kept: {error}");
        }
    }
}

fn open(path: &Path) -> io::Result<Vectors> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        file.take(LARGEST).read_to_end(&mut bytes)?;
    }
    if bytes.is_empty() {
        std::fs::write(path, HEAD)?;
        return Ok(Vectors::new());
    }
    let Some(records) = bytes.strip_prefix(HEAD) else {
        let why = format!("`{}` is not a file of vectors", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    };
    let (vectors, used) = all(records);
    OpenOptions::new().write(true).open(path)?.set_len((HEAD.len() + used) as u64)?;
    Ok(vectors)
}

/// All records before the first invalid one, and their total length.
fn all(records: &[u8]) -> (Vectors, usize) {
    let (mut vectors, mut rest) = (Vectors::new(), records);
    while let Some((digest, vector, after)) = first(rest) {
        vectors.insert(digest, Arc::new(vector));
        rest = after;
    }
    (vectors, records.len() - rest.len())
}

fn first(bytes: &[u8]) -> Option<(Digest, Vector, &[u8])> {
    let (digest, rest) = bytes.split_at_checked(DIGEST)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (numbers, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (check, rest) = rest.split_at_checked(CHECK)?;
    let is_whole = check == check_of(digest, numbers);
    let both = Digest::from_bytes(digest).ok().zip(Vector::from_bytes(numbers));
    both.filter(|_| is_whole).map(|(digest, vector)| (digest, vector, rest))
}

fn append(path: &Path, vectors: &[(Digest, Arc<Vector>)]) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(&written(vectors))
}

fn write_anew(path: &Path, vectors: &[(Digest, Arc<Vector>)]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, [HEAD, &written(vectors)].concat())?;
    std::fs::rename(beside, path)
}

fn written(vectors: &[(Digest, Arc<Vector>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (digest, vector) in vectors {
        let numbers = vector.bytes();
        let Ok(length) = u16::try_from(numbers.len()) else { continue };
        bytes.extend(digest.as_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(&numbers);
        bytes.extend(check_of(digest.as_bytes(), &numbers));
    }
    bytes
}

fn check_of(digest: &[u8], numbers: &[u8]) -> [u8; CHECK] {
    let both = Digest::of([digest, numbers].concat());
    both.as_bytes().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(number: f32) -> Arc<Vector> {
        Arc::new(Vector::new(&[1.0, number]).unwrap())
    }

    #[tokio::test]
    async fn stored_vectors_are_read_again_up_to_a_truncated_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crib.db.vectors");
        let kept = || KeptVectors::new(Some(path.clone()));
        let (one, two) = (Digest::of("one"), Digest::of("two"));
        let first = kept();
        first.read().await;
        first.put(vec![(one, vector(0.0)), (two, vector(2.0))]).await;
        let again = kept();
        again.read().await;
        assert_eq!(again.get(&one), Some(vector(0.0)));
        assert_eq!(again.get(&two), Some(vector(2.0)));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let cut = kept();
        cut.read().await;
        assert!(cut.get(&one).is_some() && cut.get(&two).is_none());
        cut.put(vec![(two, vector(2.0))]).await;
        let whole = kept();
        whole.read().await;
        assert!(whole.get(&one).is_some() && whole.get(&two).is_some());
        std::fs::write(&path, b"something else").unwrap();
        let other = kept();
        other.read().await;
        other.put(vec![(one, vector(1.0))]).await;
        assert_eq!(std::fs::read(&path).unwrap(), b"something else");
        assert!(other.get(&one).is_some());
    }

    #[tokio::test]
    async fn a_mostly_unused_file_is_compacted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crib.db.vectors");
        let kept = KeptVectors::new(Some(path.clone()));
        kept.read().await;
        let many = (0..=LEFT + 2).map(|number| (Digest::of(number.to_string()), vector(1.0)));
        kept.put(many.collect()).await;
        let held = kept.get(&Digest::of("7"));
        kept.forget_unused().await;
        assert!(held.is_some() && kept.get(&Digest::of("8")).is_none());
        let again = KeptVectors::new(Some(path));
        again.read().await;
        assert_eq!(again.get(&Digest::of("7")), held);
        assert_eq!(*again.records(), Some(1));
    }
}
