//! What a program may do, taken from it before it begins: by our own program on the way to becoming the other one.
//!
//! Always: no more rights than we have (a program that is set-uid gives none), no core files, which would hold secrets, a
//! bound on open files and processes, no look into the server's memory and environment, no signals to it, and none of its
//! own files where they can be hidden. If a sandbox is asked for: no file but those of the system and those that are
//! named. See `docs/adr/0024`.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set, set_no_new_privs};

use super::Sandbox;

/// As every Linux has had it for long: programs cope with it.
const FILES: (u64, u64) = (1024, 4096);
/// More than that at once is no MCP server but a fork bomb.
const PROCESSES: u64 = 4096;
/// Root's ways around what follows.
const TO_LOOK_INTO_OTHERS: [CapabilitySet; 3] =
    [CapabilitySet::SYS_PTRACE, CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN];
/// The newest that this was tried with.
const NEWEST: ABI = ABI::V7;

/// What nearly every program reads. Of `/etc` only what is the system's: keys of servers lie there too.
const SYSTEM: [&str; 38] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sys",
    "/nix/store",
    "/run/systemd/resolve",
    "/dev/random",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/terminfo",
    "/etc/timezone",
];
const WRITABLE: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/shm"];

/// How much the server goes first.
const NICE: i32 = 5;

/// Takes from this process what the program is not to have.
pub(super) fn take(
    program: &OsStr,
    hidden: &[PathBuf],
    sandbox: Option<&Sandbox>,
) -> io::Result<()> {
    set_no_new_privs(true)?;
    // It gives way to the server, of which all sources need some. Who may not even do that is slow enough already.
    setpriority_process(None, NICE).unwrap_or_default();
    for right in TO_LOOK_INTO_OTHERS {
        // Who is not root has none of them, and may not give them up either.
        remove_capability_from_bounding_set(right).unwrap_or_default();
    }
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    at_most(Resource::Nofile, FILES.0, FILES.1)?;
    if let Some(processes) = processes_now() {
        // The system counts all that the user has.
        let most = processes + PROCESSES;
        at_most(Resource::Nproc, most, most)?;
    }
    match hidden {
        [] => apart(),
        hidden => hide(hidden).or_else(|_| apart()),
    }
    .and_then(|()| sandbox.map_or(Ok(()), |sandbox| shut(Path::new(program), sandbox)))
    .map_err(io::Error::other)
}

fn at_most(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let maximum = now.maximum.map_or(maximum, |now| now.min(maximum));
    let current = now.current.map_or(current, |now| now.min(current)).min(maximum);
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?)
}

/// Processes and threads of the whole system: `0.20 0.18 0.12 1/80 11206`.
fn processes_now() -> Option<u64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

/// Whatever a process like this is allowed, but not to look into others, or to send them signals. As far as the kernel
/// can: without Landlock, or with an old one, nothing comes of it.
fn apart() -> Result<(), RulesetError> {
    Ruleset::default().scope(Scope::Signal)?.create()?.restrict_self().map(drop)
}

/// The same without some files and folders. A kernel that cannot let files be moved between folders is an error.
///
/// Landlock knows no "all but this": everything beside the way to what is hidden is named. What appears there later is
/// hidden too, so the way has to lead through folders where nothing does; whoever hides sees to that.
fn hide(hidden: &[PathBuf]) -> Result<(), RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::Signal)?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(beside(Path::new("/"), hidden), all))?
        .restrict_self()
        .map(drop)
}

/// All there is but what is hidden. Links are left out: what they lead to is named by itself, or hidden.
fn beside(folder: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let shown = entries.filter(|path| !hidden.contains(path) && !path.is_symlink());
    let is_on_the_way = |path: &Path| hidden.iter().any(|hidden| hidden.starts_with(path));
    let named = shown.flat_map(|path| match is_on_the_way(&path) {
        true => beside(&path, hidden),
        false => vec![path],
    });
    named.collect()
}

/// Nothing but what is named. A kernel without Landlock is an error; what only a newer one knows is left out.
fn shut(program: &Path, sandbox: &Sandbox) -> Result<(), RulesetError> {
    let (all, read) = (AccessFs::from_all(NEWEST), AccessFs::from_read(NEWEST));
    let own = program.canonicalize().ok();
    let own = own.as_deref().and_then(Path::parent).map(PathBuf::from);
    let here = std::env::current_dir().ok().filter(|here| here != Path::new("/"));
    let readable = SYSTEM.map(PathBuf::from).into_iter().chain(own).chain(here);
    let readable = readable.chain(sandbox.read.iter().cloned());
    let writable = WRITABLE.map(PathBuf::from).into_iter().chain(sandbox.write.iter().cloned());
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(writable, all))?
        .restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_named_but_what_is_hidden_and_links_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a/b/c", "a/d", "e/f"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::fs::write(at("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink(at("a/b/c"), at("link")).unwrap();
        let mut named = beside(folder.path(), &[at("a/b/c")]);
        named.sort();
        assert_eq!(named, [at("a/b/file"), at("a/d"), at("e")]);
    }
}
