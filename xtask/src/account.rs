//! Unix accounts: our own, and an ordinary one for programs that refuse to run as root.

use std::path::Path;

use crate::xtask_error::XtaskError;
use crate::{program, workspace};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnixAccount {
    pub(crate) name: String,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

pub(crate) fn is_root() -> Result<bool, XtaskError> {
    Ok(program::run_for_output(program::new_command("id").arg("-u"))?.trim() == "0")
}

/// The ordinary account that PostgreSQL's programs run as if we are root.
pub(crate) fn ordinary_account() -> Result<UnixAccount, XtaskError> {
    let passwd = workspace::read_file(Path::new("/etc/passwd"))?;
    find_account(&passwd, "postgres").or_else(|| find_account(&passwd, "nobody")).ok_or_else(|| {
        XtaskError::new(
            "PostgreSQL refuses root, and there is neither a user `postgres` nor `nobody`",
        )
    })
}

/// Parses lines of the form `name:password:user:group:…`, see passwd(5).
fn find_account(passwd: &str, name: &str) -> Option<UnixAccount> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let user = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(UnixAccount { name: name.to_owned(), user, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8::/:\npostgres:x:101:104:,,,:/var:/bin/bash\n";
        let postgres = UnixAccount { name: "postgres".to_owned(), user: 101, group: 104 };
        assert_eq!(find_account(passwd, "postgres"), Some(postgres));
        assert_eq!(find_account(passwd, "nobody"), None);
    }
}
