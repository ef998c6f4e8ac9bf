//! Confinement: the server's executable drops rights before it becomes another program.
//!
//! Always dropped: new privileges (a set-uid program gains none), core dumps (they would contain secrets), unlimited
//! open files and processes, access to the server's memory and environment, signals to the server, and access to the
//! server's own files where they can be hidden. With a sandbox also: access to all files but those of the system and
//! the listed ones. See `docs/adr/0024`.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set, set_no_new_privs};

use super::SandboxPaths;

/// The soft and hard limit on open files: the long-standing Linux defaults, which programs cope with.
const MAX_FILES: (u64, u64) = (1024, 4096);
/// More processes than this at once indicate a fork bomb, not an MCP server.
const MAX_PROCESSES: u64 = 4096;
/// Capabilities with which root could bypass the restrictions below.
const INSPECTION_CAPABILITIES: [CapabilitySet; 3] =
    [CapabilitySet::SYS_PTRACE, CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN];
/// The newest Landlock ABI that this code was tested with.
const NEWEST_ABI: ABI = ABI::V7;

/// Paths that nearly every program reads. Of `/etc` only system files: server keys may lie there too.
const SYSTEM_PATHS: [&str; 38] = [
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
const WRITABLE_PATHS: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/shm"];

/// The nice value of programs, so that the server runs first.
const NICENESS: i32 = 5;

/// Drops the rights of this process that the program must not have.
pub(super) fn confine_process(
    program: &OsStr,
    hidden: &[PathBuf],
    sandbox: Option<&SandboxPaths>,
) -> io::Result<()> {
    set_no_new_privs(true)?;
    // The program yields to the server, which all sources need. If this fails, its priority is low already.
    setpriority_process(None, NICENESS).unwrap_or_default();
    for right in INSPECTION_CAPABILITIES {
        // A process without root privileges has none of these capabilities and cannot drop them either.
        remove_capability_from_bounding_set(right).unwrap_or_default();
    }
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    lower_limit(Resource::Nofile, MAX_FILES.0, MAX_FILES.1)?;
    if let Some(processes) = count_processes() {
        // The kernel counts all processes of the user.
        let most = processes + MAX_PROCESSES;
        lower_limit(Resource::Nproc, most, most)?;
    }
    match hidden {
        [] => isolate_process(),
        hidden => hide_paths(hidden).or_else(|_| isolate_process()),
    }
    .and_then(|()| {
        sandbox.map_or(Ok(()), |sandbox| restrict_to_sandbox(Path::new(program), sandbox))
    })
    .map_err(io::Error::other)
}

fn lower_limit(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let maximum = now.maximum.map_or(maximum, |now| now.min(maximum));
    let current = now.current.map_or(current, |now| now.min(current)).min(maximum);
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?)
}

/// The processes and threads of the whole system, from a line such as `0.20 0.18 0.12 1/80 11206`.
fn count_processes() -> Option<u64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

/// Prevents the process from inspecting or signalling processes outside its Landlock domain. Best effort: without
/// Landlock, or with an old version, it has no effect.
fn isolate_process() -> Result<(), RulesetError> {
    Ruleset::default().scope(Scope::Signal)?.create()?.restrict_self().map(drop)
}

/// Like `isolate_process`, and also hides files and folders. Fails if the kernel cannot allow moves between folders.
///
/// Landlock has no "everything except" rule, so every entry beside the way to a hidden path is allowed by name. Entries
/// that appear there later are hidden too: the caller hides only paths whose parent folders do not change.
fn hide_paths(hidden: &[PathBuf]) -> Result<(), RulesetError> {
    let all = AccessFs::from_all(NEWEST_ABI);
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::Signal)?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(visible_paths(Path::new("/"), hidden), all))?
        .restrict_self()
        .map(drop)
}

/// All entries except hidden ones. Symbolic links are omitted: their targets are listed themselves, or hidden.
fn visible_paths(folder: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let shown = entries.filter(|path| !hidden.contains(path) && !path.is_symlink());
    let is_on_the_way = |path: &Path| hidden.iter().any(|hidden| hidden.starts_with(path));
    let named = shown.flat_map(|path| match is_on_the_way(&path) {
        true => visible_paths(&path, hidden),
        false => vec![path],
    });
    named.collect()
}

/// Allows only the listed files. Fails if the kernel has no Landlock; rights that only newer kernels know are omitted.
fn restrict_to_sandbox(program: &Path, sandbox: &SandboxPaths) -> Result<(), RulesetError> {
    let (all, read) = (AccessFs::from_all(NEWEST_ABI), AccessFs::from_read(NEWEST_ABI));
    let own = program.canonicalize().ok();
    let own = own.as_deref().and_then(Path::parent).map(PathBuf::from);
    let here = std::env::current_dir().ok().filter(|here| here != Path::new("/"));
    let readable = SYSTEM_PATHS.map(PathBuf::from).into_iter().chain(own).chain(here);
    let readable = readable.chain(sandbox.read.iter().cloned());
    let writable =
        WRITABLE_PATHS.map(PathBuf::from).into_iter().chain(sandbox.write.iter().cloned());
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST_ABI))?
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
    fn all_paths_are_listed_except_hidden_ones_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a/b/c", "a/d", "e/f"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::fs::write(at("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink(at("a/b/c"), at("link")).unwrap();
        let mut named = visible_paths(folder.path(), &[at("a/b/c")]);
        named.sort();
        assert_eq!(named, [at("a/b/file"), at("a/d"), at("e")]);
    }
}
