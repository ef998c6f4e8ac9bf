//! A full disk: writes fail at once with the reason, reads continue, and writes resume once there is space again.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::journal::{AppendRequest, ChangeContext, Journal, JournalError};
use catalog::{Catalog, CommandError};

use crate::program::{command, inner_folder, rerun_test, run};
use crate::world::{Deadline, assert_sound, create_group, event, events, open, runtime, texts};

const TEST: &str = "full_disk::writes_fail_while_the_disk_is_full_and_then_resume";

#[test]
fn writes_fail_while_the_disk_is_full_and_then_resume() {
    if let Some(folder) = inner_folder() {
        return runtime().block_on(write_while_disk_fills(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    // A small disk in a mount namespace; an ordinary user needs a user namespace for it.
    let as_root = run(command("unshare").args(["-m", "true"])).code == Some(0);
    let namespaces = if as_root { "-m" } else { "-Urm" };
    let mount = format!("mount -t tmpfs -o size=6m tmpfs '{disk}' && exec \"$@\"");
    let around = ["unshare", namespaces, "sh", "-c", &mount, "sh"];
    let ended = run(&mut rerun_test(&around, TEST, folder.path()));
    ended.assert_succeeded("a process on a small disk (`unshare` and `mount` must be allowed)");
    assert!(ended.stdout.contains("1 passed"), "{}", ended.stdout);
}

/// Writer of a stream, with all acknowledged texts in order.
struct Diary {
    journal: Arc<dyn Journal>,
    acknowledged: Vec<String>,
}

impl Diary {
    fn next(&self, bytes: usize) -> (String, AppendRequest) {
        let number = self.acknowledged.len();
        let text = format!("{number} {}", "x".repeat(bytes));
        let append = event("diary", number as u64, &text);
        (text, append)
    }

    async fn write(&mut self, bytes: usize) -> Result<(), JournalError> {
        let (text, append) = self.next(bytes);
        let start = Instant::now();
        let result = self.journal.append(append).await;
        assert!(start.elapsed() < Duration::from_secs(1), "it took {:?}", start.elapsed());
        result.map(|_| self.acknowledged.push(text))
    }
}

/// Fills the disk completely.
fn fill_disk(ballast: &Path) {
    let mut file = File::create(ballast).unwrap();
    for size in [1 << 20, 1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

async fn write_while_disk_fills(folder: &Path) {
    let (path, ballast) = (folder.join("toolcrib.db"), folder.join("ballast"));
    let journal = open(&path);
    let catalog = Catalog::open(Arc::clone(&journal)).await.unwrap();
    let mut diary = Diary { journal: Arc::clone(&journal), acknowledged: Vec::new() };
    for round in 0..3 {
        let created = create_group(&format!("round-{round}"));
        catalog.execute(created, ChangeContext::by_actor("ada"), None).await.unwrap();
        for _ in 0..10 {
            diary.write(2_000).await.unwrap();
        }
        fill_disk(&ballast);
        // Space already allocated to the write-ahead log may still be used.
        let mut left = 0;
        while diary.write(20_000).await.is_ok() {
            left += 1;
            assert!(left < 1_000, "the disk is not full");
        }
        check_reads_while_full(&catalog, &mut diary, round).await;
        fs::remove_file(&ballast).unwrap();
        let deadline = Deadline::after(Duration::from_secs(5));
        while let Err(error) = diary.write(20_000).await {
            assert!(matches!(error, JournalError::Full { .. }), "{error}");
            deadline.wait_or_panic("resuming").await;
        }
    }
    assert_eq!(texts(&*journal, "diary").await, diary.acknowledged);
    assert_sound(&journal).await;
    let digest = catalog.snapshot().digest();
    catalog.close().await;
    drop((journal, diary.journal));
    let deadline = Deadline::after(Duration::from_secs(5));
    while File::open(folder.join("toolcrib.db.lock")).unwrap().try_lock().is_err() {
        deadline.wait_or_panic("closing").await;
    }
    let journal = open(&path);
    assert_eq!(texts(&*journal, "diary").await, diary.acknowledged);
    assert_eq!(Catalog::open(Arc::clone(&journal)).await.unwrap().snapshot().digest(), digest);
    assert_sound(&journal).await;
}

/// While nothing can be written, everything can be read.
async fn check_reads_while_full(catalog: &Catalog, diary: &mut Diary, round: usize) {
    let journal = &*diary.journal;
    let deadline = Deadline::after(Duration::from_secs(5));
    let here = journal.head_position().await.unwrap();
    while catalog.snapshot().position() < here {
        deadline.wait_or_panic("showing what is stored").await;
    }
    for _ in 0..3 {
        match diary.write(20_000).await {
            Err(error @ JournalError::Full { .. }) => {
                assert!(error.is_retryable());
                assert!(error.to_string().contains("free some space"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        let journal = &*diary.journal;
        assert_eq!(texts(journal, "diary").await, diary.acknowledged);
        assert_eq!(events(journal).await.len() as u64, journal.head_position().await.unwrap().0);
        assert_eq!(catalog.snapshot().groups().len(), round + 1);
        assert_eq!(journal.checkpoint_positions().await.unwrap(), []);
    }
    // Concurrent readers each need a connection of their own.
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let journal = Arc::clone(&diary.journal);
        readers.spawn(async move { events(&*journal).await.len() });
    }
    let counts = readers.join_all().await;
    assert!(counts.iter().all(|count| *count == counts[0]));

    // A command too large for the remaining space fails with the same error.
    let mut description = create_group("too-much");
    if let catalog::Command::Group(_, catalog::group::GroupCommand::Create(new)) = &mut description
    {
        new.profile.description = "x".repeat(200_000).into();
    }
    match catalog.execute(description, ChangeContext::by_actor("ada"), None).await {
        Err(CommandError::Journal(JournalError::Full { .. })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(catalog.snapshot().groups().len(), round + 1);
}
