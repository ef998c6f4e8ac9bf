//! Fault injection: broken files, full and failing disks, a lost database server. Errors must be clear, reads continue
//! where possible, no acknowledged write is lost, and writes resume automatically once the cause is gone.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is an answer")]

#[path = "faults/broken_file.rs"]
mod broken_file;
#[path = "faults/failed_flush.rs"]
mod failed_flush;
#[path = "faults/full_disk.rs"]
mod full_disk;
#[path = "faults/lost_answer.rs"]
mod lost_answer;
#[path = "faults/lost_server.rs"]
mod lost_server;
#[path = "faults/one_writer.rs"]
mod one_writer;
#[path = "faults/program.rs"]
mod program;
#[path = "faults/proxy.rs"]
mod proxy;
#[path = "faults/read_only_folder.rs"]
mod read_only_folder;
#[path = "faults/server.rs"]
mod server;
#[path = "faults/world.rs"]
mod world;
