//! Bounded reads: every read from outside has a size limit, and every read from a network or a process has a deadline.
//!
//! The size is counted while reading, because an announced length is a claim and not a limit.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Why a read failed. The bytes read so far are dropped.
#[derive(Debug, thiserror::Error)]
pub enum BoundedReadError {
    /// There is more to read after the limit.
    #[error("it has more than {limit} bytes")]
    TooLarge { limit: u64 },
    /// The end was not reached before the deadline.
    #[error("it did not end within {deadline:?}")]
    TooSlow { deadline: Duration },
    /// The path is a directory, a pipe or a device.
    #[error("it is not a file")]
    NotAFile,
    /// The file, connection or process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads a whole file of at most `limit` bytes. The read blocks and has no deadline: it is meant for small local files
/// that an admin named. Pipes and devices are rejected, as reading them could block indefinitely.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, BoundedReadError> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(BoundedReadError::NotAFile);
    }
    // One byte more, so that the read reaches the end of the file without growing the buffer.
    let expected = metadata.len().min(limit).saturating_add(1);
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or_default());
    File::open(path)?.take(one_more_than(limit)).read_to_end(&mut bytes)?;
    check_length(limit, bytes)
}

/// Reads to the end, at most `limit` bytes. The deadline covers the whole read: a slow trickle does not extend it.
pub async fn read_limited(
    reader: impl AsyncRead + Unpin,
    limit: u64,
    deadline: Duration,
) -> Result<Vec<u8>, BoundedReadError> {
    let mut bytes = Vec::new();
    let mut reader = reader.take(one_more_than(limit));
    match tokio::time::timeout(deadline, reader.read_to_end(&mut bytes)).await {
        Ok(read) => read?,
        Err(_) => return Err(BoundedReadError::TooSlow { deadline }),
    };
    check_length(limit, bytes)
}

/// One byte more is enough to see that the input exceeds the limit.
fn one_more_than(limit: u64) -> u64 {
    limit.saturating_add(1)
}

fn check_length(limit: u64, bytes: Vec<u8>) -> Result<Vec<u8>, BoundedReadError> {
    if limit < bytes.len() as u64 {
        return Err(BoundedReadError::TooLarge { limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::io::AsyncWriteExt as _;
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn shown(read: Result<Vec<u8>, BoundedReadError>) -> Result<String, String> {
        read.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        assert_eq!(shown(read_file(file.path(), 5)).unwrap(), "12345");
        assert_eq!(shown(read_file(file.path(), u64::MAX)).unwrap(), "12345");
        assert_eq!(shown(read_file(file.path(), 4)).unwrap_err(), "it has more than 4 bytes");
    }

    #[test]
    fn a_missing_file_is_an_io_error() {
        let error = read_file(Path::new("/not/there"), 5).unwrap_err();
        assert!(
            matches!(error, BoundedReadError::Io(error) if error.kind() == io::ErrorKind::NotFound)
        );
    }

    #[tokio::test]
    async fn a_reader_is_read_up_to_its_limit() {
        assert_eq!(shown(read_limited(&b"12345"[..], 5, SECOND).await).unwrap(), "12345");
        let endless = read_limited(tokio::io::repeat(b'x'), 4, SECOND).await;
        assert_eq!(shown(endless).unwrap_err(), "it has more than 4 bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_reader_times_out_at_the_deadline() {
        let start = Instant::now();
        let (reader, _writer) = tokio::io::duplex(8);
        let read = read_limited(reader, 5, SECOND).await;
        assert_eq!(shown(read).unwrap_err(), "it did not end within 1s");
        assert_eq!(start.elapsed(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_trickle_does_not_extend_the_deadline() {
        let start = Instant::now();
        let (reader, mut writer) = tokio::io::duplex(8);
        tokio::spawn(async move {
            while writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(SECOND / 10).await;
            }
        });
        let read = read_limited(reader, 1000, SECOND).await;
        assert!(matches!(read, Err(BoundedReadError::TooSlow { deadline: SECOND })));
        assert_eq!(start.elapsed(), SECOND);
    }

    #[tokio::test]
    async fn a_broken_connection_is_an_io_error() {
        struct Broken;
        impl AsyncRead for Broken {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                _: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                std::task::Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
        let error = read_limited(Broken, 5, SECOND).await.unwrap_err();
        assert!(
            matches!(error, BoundedReadError::Io(error) if error.kind() == io::ErrorKind::ConnectionReset)
        );
    }

    #[test]
    fn only_regular_files_are_read() {
        assert_eq!(
            shown(read_file(Path::new("/dev/zero"), 10)),
            Err("it is not a file".to_owned())
        );
        assert_eq!(shown(read_file(Path::new("/"), 10)), Err("it is not a file".to_owned()));
    }
}
