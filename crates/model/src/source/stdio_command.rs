//! The command of a child process, and its validation.
//!
//! An environment variable can make a loader, an interpreter or a tool run code that the command does not name. An
//! admin must see in the command which code runs, so such variables are rejected. The lists cover loaders, and the
//! interpreters and tools that MCP servers commonly use.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SecretRef;

/// A child process that speaks MCP on its standard input and output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StdioCommand {
    /// The program.
    pub program: Box<str>,
    /// Its arguments; no shell reads them.
    #[serde(default)]
    pub arguments: Vec<Box<str>>,
    /// Its whole environment. Values are references: most of what is put here is a secret.
    #[serde(default)]
    pub environment: BTreeMap<Box<str>, SecretRef>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Box<str>>,
    /// What it may open. Without it, whatever the server may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<CommandSandbox>,
}

/// The files and folders that a child process may open, beside those of the system, its own folder and its `directory`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sandbox")]
pub struct CommandSandbox {
    /// May be read, and programs in them started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<Box<str>>,
    /// May be changed too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<Box<str>>,
}

/// A problem with a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{member}` of the command: {why}")]
pub struct CommandProblem {
    /// Path of the field in the command.
    pub member: String,
    /// The problem, and what to do instead.
    pub why: String,
}

impl StdioCommand {
    /// Whether program, arguments and directory are equal; ignores environment and sandbox.
    pub fn has_same_invocation(&self, other: &Self) -> bool {
        let run = |it: &Self| (it.program.clone(), it.arguments.clone(), it.directory.clone());
        run(self) == run(other)
    }

    /// All problems with the command.
    pub fn find_problems(&self) -> Vec<CommandProblem> {
        let mut problems = Vec::new();
        let mut add = |member: String, why: String| problems.push(CommandProblem { member, why });
        if self.program.trim().is_empty() {
            add("program".to_owned(), "is empty: name a program".to_owned());
        } else if !self.program.starts_with('/') && self.program.contains(char::is_whitespace) {
            let why = "names one program, and no shell reads it: its arguments go into `arguments`";
            add("program".to_owned(), why.to_owned());
        }
        if let Some(sandbox) = &self.sandbox {
            for (member, paths) in [("read", &sandbox.read), ("write", &sandbox.write)] {
                let relative = paths.iter().enumerate().filter(|(_, path)| !path.starts_with('/'));
                for (number, _) in relative {
                    let why = "is to be an absolute path".to_owned();
                    add(format!("sandbox.{member}[{number}]"), why);
                }
            }
        }
        problems
            .extend(self.environment.keys().filter_map(|name| CommandProblem::for_variable(name)));
        problems
    }
}

impl CommandProblem {
    /// The problem with an environment variable of this name, if it may not be set.
    pub fn for_variable(name: &str) -> Option<Self> {
        let member = || format!("environment.{}", name.escape_debug());
        variable_problem(name).map(|why| Self { member: member(), why })
    }
}

/// Variable families: name prefix, the program that reads them, and the harmless members.
const VARIABLE_FAMILIES: [(&str, &str, &[&str]); 6] = [
    ("LD_", "the loader of programs", &[]),
    ("DYLD_", "the loader of programs", &[]),
    (
        "PYTHON",
        "Python",
        &[
            "PYTHONASYNCIODEBUG",
            "PYTHONDONTWRITEBYTECODE",
            "PYTHONFAULTHANDLER",
            "PYTHONHASHSEED",
            "PYTHONIOENCODING",
            "PYTHONNOUSERSITE",
            "PYTHONSAFEPATH",
            "PYTHONUNBUFFERED",
            "PYTHONUTF8",
        ],
    ),
    ("BASH_FUNC_", "shells", &[]),
    ("CORECLR_", ".NET", &[]),
    ("GIT_CONFIG", "Git", &[]),
];

/// Single variables, by the program that reads them.
const SINGLE_VARIABLES: [(&str, &[&str]); 11] = [
    ("the system's library", &["GCONV_PATH", "GLIBC_TUNABLES"]),
    ("OpenSSL", &["OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES"]),
    ("Node.js", &["NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE"]),
    ("npm", &["npm_config_node_options", "npm_config_script_shell"]),
    ("shells", &["BASH_ENV", "BASHOPTS", "ENV", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "ZDOTDIR"]),
    ("Perl", &["PERL5DB", "PERL5LIB", "PERL5OPT", "PERLLIB"]),
    ("Ruby", &["RUBYLIB", "RUBYOPT"]),
    ("Java", &["CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"]),
    (".NET", &["DOTNET_STARTUP_HOOKS"]),
    ("PHP or Lua", &["LUA_CPATH", "LUA_INIT", "LUA_PATH", "PHPRC", "PHP_INI_SCAN_DIR"]),
    (
        "Git",
        &[
            "GIT_ASKPASS",
            "GIT_EDITOR",
            "GIT_EXEC_PATH",
            "GIT_EXTERNAL_DIFF",
            "GIT_PAGER",
            "GIT_PROXY_COMMAND",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_TEMPLATE_DIR",
        ],
    ),
];

fn variable_problem(name: &str) -> Option<String> {
    // `LD_PRELOAD=x` with the value `y` would set `LD_PRELOAD` to `x=y`.
    if name.is_empty() || name.contains(['=', '\0']) {
        return Some("is no name of a variable".to_owned());
    }
    let family = VARIABLE_FAMILIES.iter().find(|(begin, _, _)| name.starts_with(begin));
    let family = family.filter(|(_, _, harmless)| !harmless.contains(&name));
    // npm ignores the case of its variables; other programs do not.
    let is_it =
        |one: &&str| *one == name || one.starts_with("npm_") && one.eq_ignore_ascii_case(name);
    let single = || SINGLE_VARIABLES.iter().find(|(_, names)| names.iter().any(is_it));
    let whose = family.map(|(_, whose, _)| whose).or_else(|| single().map(|(whose, _)| whose))?;
    Some(format!(
        "may not be set: it can make {whose} run other code than the command says; if you need it, name a script of your \
         own as the program and set it there"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(command: Value) -> Vec<String> {
        let command: StdioCommand = serde_json::from_value(command).unwrap();
        command.find_problems().iter().map(ToString::to_string).collect()
    }

    fn with(name: &str) -> Vec<String> {
        problems(json!({"program": "files", "environment": {name: "env:A"}}))
    }

    #[test]
    fn variables_that_run_other_code_are_rejected_with_their_program() {
        for (name, whose) in [
            ("LD_PRELOAD", "the loader of programs"),
            ("LD_LIBRARY_PATH", "the loader of programs"),
            ("DYLD_INSERT_LIBRARIES", "the loader of programs"),
            ("NODE_OPTIONS", "Node.js"),
            ("PYTHONPATH", "Python"),
            ("PYTHONSTARTUP", "Python"),
            ("PYTHONWARNINGS", "Python"),
            ("BASH_ENV", "shells"),
            ("ENV", "shells"),
            ("BASH_FUNC_ls%%", "shells"),
            ("PERL5OPT", "Perl"),
            ("RUBYOPT", "Ruby"),
            ("_JAVA_OPTIONS", "Java"),
            ("GCONV_PATH", "the system's library"),
            ("GIT_SSH_COMMAND", "Git"),
            ("GIT_CONFIG_KEY_0", "Git"),
            ("NPM_CONFIG_Node_Options", "npm"),
        ] {
            let found = with(name);
            let expected = format!(
                "`environment.{name}` of the command: may not be set: it can make {whose} run"
            );
            assert!(found.len() == 1 && found[0].starts_with(&expected), "{name}: {found:?}");
        }
    }

    #[test]
    fn harmless_variables_are_accepted() {
        for name in [
            "PATH",
            "HOME",
            "LANG",
            "TOKEN",
            "NODE_ENV",
            "NODE_EXTRA_CA_CERTS",
            "PYTHONUNBUFFERED",
            "PYTHONIOENCODING",
            "PYTHONUTF8",
            "PYTHONDONTWRITEBYTECODE",
            "npm_config_registry",
            "GIT_AUTHOR_NAME",
            "JAVA_HOME",
            "LDAP_URL",
            "ENVIRONMENT",
            "APP_ENV",
            "HTTPS_PROXY",
        ] {
            assert_eq!(with(name), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_name_cannot_smuggle_another_one_in() {
        for name in ["", "LD_PRELOAD=/tmp/x.so:", "A\0B"] {
            assert!(with(name)[0].ends_with("is no name of a variable"), "{name:?}");
        }
    }

    #[test]
    fn a_program_is_not_a_command_line() {
        let found = problems(json!({"program": "npx -y server"}));
        assert!(found[0].contains("its arguments go into `arguments`"), "{found:?}");
        assert_eq!(problems(json!({"program": "  "})).len(), 1);
        for program in ["npx", "/opt/my tools/server"] {
            assert_eq!(problems(json!({"program": program})), [""; 0]);
        }
    }

    #[test]
    fn sandbox_paths_must_be_absolute() {
        let sandbox = json!({"read": ["/srv", "data"], "write": ["~/x"]});
        let found = problems(json!({"program": "files", "sandbox": sandbox}));
        let expected = ["sandbox.read[1]", "sandbox.write[0]"];
        let expected =
            expected.map(|at| format!("`{at}` of the command: is to be an absolute path"));
        assert_eq!(found, expected);
    }
}
