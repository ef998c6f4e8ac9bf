//! Properties after any commands: every way to build the snapshot gives the same one, and groups match the oracle.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Digest, ToolId};
use proptest::prelude::*;
use toolcrib_catalog::clock::SystemClock;
use toolcrib_catalog::journal::{ChangeContext, Journal, MemoryJournal, Position};
use toolcrib_catalog::{
    Catalog, CommandError, JournalMoment, Snapshot, snapshot_at, verify_journal,
};

use crate::oracle;
use crate::wishes::{RandomAction, action_sequences};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn live_rebuilt_and_checkpointed_snapshots_are_equal_after_any_commands(wishes in action_sequences()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(&wishes));
    }
}

async fn check(wishes: &[RandomAction]) {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new(Arc::new(SystemClock)));
    let catalog = Catalog::open(Arc::clone(&journal)).await.unwrap();
    let mut live: Vec<(Position, Digest)> = Vec::new();
    for wish in wishes {
        if let RandomAction::Checkpoint = wish {
            catalog.checkpoint_now().await.unwrap();
        }
        let Some(command) = wish.command(&catalog.snapshot()) else { continue };
        match catalog.execute(command, ChangeContext::by_actor("ada"), None).await {
            Ok(_) | Err(CommandError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
        let snapshot = catalog.snapshot();
        compare_groups(&snapshot);
        live.push((snapshot.position(), snapshot.digest()));
    }
    let snapshot = catalog.snapshot();
    let verified = verify_journal(&*journal, &snapshot, |_| {}).await.unwrap();
    assert_eq!(verified.problems, [""; 0]);
    assert_eq!(verified.rebuilt, verified.live);

    // Reopen the catalog: it starts from the last checkpoint, if there is one.
    let again = Catalog::open(Arc::clone(&journal)).await.unwrap().snapshot();
    assert_eq!(again.digest(), snapshot.digest());
    compare_groups(&again);

    for (position, digest) in live.into_iter().step_by(7) {
        let then = snapshot_at(&*journal, JournalMoment::Position(position)).await.unwrap();
        assert_eq!(then.digest(), digest, "as of {position}");
    }
}

fn compare_groups(snapshot: &Snapshot) {
    for entry in snapshot.groups() {
        let id = &entry.group.id;
        let tools = snapshot.group_tools(id).unwrap();
        let given: BTreeSet<ToolId> =
            tools.iter().map(|slot| snapshot.tool_at(slot).unwrap().tool.id.clone()).collect();
        assert_eq!(given, oracle::tools_of(snapshot, &entry.group), "group `{id}`");
    }
}
