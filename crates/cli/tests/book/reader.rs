//! A reader that types the commands of a page and checks their output.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::likeness::{begins_like, is_like};
use crate::page::{Command, ROOT};
use crate::shell::{PATIENCE, Shell};

/// A failed request is an error on the page; curl shows the response body anyway.
const CURLRC: &str = "fail-with-body\nno-progress-meter\nmax-time = 30\n";

/// A server that has printed this accepts requests.
const GREETING: &str = "toolcrib serves on ";

/// Time within which asynchronous effects of a request must be visible.
const A_MOMENT: Duration = Duration::from_secs(10);

pub(crate) struct Reader {
    shell: Shell,
    folder: tempfile::TempDir,
    /// Commands that still run, as in other terminals.
    lasting: Vec<BackgroundCommand>,
    /// Everything printed so far.
    heard: String,
    number: usize,
    mistakes: Vec<String>,
}

struct BackgroundCommand {
    group: String,
    command: String,
    is_server: bool,
}

impl Reader {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["bin", "home", "said", "page", "page/target", "page/target/release"] {
            fs::create_dir(path(name)).unwrap();
        }
        for name in ["bin/toolcrib", "page/target/release/toolcrib"] {
            symlink(env!("CARGO_BIN_EXE_toolcrib"), path(name)).unwrap();
        }
        symlink(PathBuf::from(ROOT).join("examples"), path("page/examples")).unwrap();
        fs::write(path("home/.curlrc"), CURLRC).unwrap();
        let shell = Shell::start(&path("page"), &path("bin"), &path("home"));
        let (heard, mistakes) = (String::new(), Vec::new());
        Self { shell, folder, lasting: Vec::new(), heard, number: 0, mistakes }
    }

    /// Runs one command.
    pub(crate) fn read(&mut self, page: &str, command: &Command) {
        self.number += 1;
        let place = format!("{page}:{}", command.line);
        let result = match with_placeholders_filled(&command.text, &self.heard) {
            Ok(text) if runs_in_background(&text) => self.start(&text, command),
            Ok(text) => self.run(&text, command, Instant::now() + A_MOMENT),
            Err(mistake) => Err(mistake),
        };
        if let Err(mistake) = result {
            self.mistakes.push(format!("{place}: `{}`\n{mistake}", command.text));
        }
    }

    /// Stops all running commands and returns the errors.
    pub(crate) fn finish(mut self, page: &str) -> Vec<String> {
        while let Some(lasting) = self.lasting.pop() {
            let stopped = self.stop(&lasting);
            self.mistakes.extend(stopped.err().map(|mistake| format!("{page}: {mistake}")));
        }
        self.mistakes
    }

    /// Runs a command. A read-only one is repeated until its output matches: tools of a new source appear later.
    fn run(&mut self, text: &str, command: &Command, deadline: Instant) -> Result<(), String> {
        self.write_shown_file(text, command);
        let code = self.shell.run(text, &self.output_file());
        let said = self.read_output();
        let wanted = expected_exit_code(text);
        if code != Some(wanted) {
            return Err(format!("ended with {code:?}, not with {wanted}, and said:\n{said}"));
        }
        if command.output.is_empty() || is_like(&command.output, &said) {
            return Ok(());
        }
        if is_read_only(text) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(50));
            return self.run(text, command, deadline);
        }
        Err(format!("said:\n{said}"))
    }

    /// If a page shows a file with `cat`, the reader writes that file first.
    fn write_shown_file(&self, text: &str, command: &Command) {
        let Some(name) = text.strip_prefix("cat ") else {
            return;
        };
        let file = self.folder.path().join("page").join(name);
        if !file.exists() {
            fs::write(file, command.output.join("\n") + "\n").unwrap();
        }
    }

    /// Starts a command and waits until its output matches; without expected output, until it prints anything.
    fn start(&mut self, text: &str, command: &Command) -> Result<(), String> {
        let is_server = is_server(text);
        let stopped = if is_server { self.stop_servers() } else { Ok(()) };
        let group = self.shell.start_in_background(text, &self.output_file());
        let group = group.ok_or("could not be started")?;
        self.lasting.push(BackgroundCommand { group, command: text.to_owned(), is_server });
        let deadline = Instant::now() + PATIENCE / 2;
        while Instant::now() < deadline {
            let said = fs::read_to_string(self.output_file()).unwrap_or_default();
            let is_there = if is_server { said.contains(GREETING) } else { !said.is_empty() };
            if is_there && begins_like(&command.output, &said) {
                self.read_output();
                return stopped;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(format!("said:\n{}", self.read_output()))
    }

    /// Stops running servers before the next one starts, because all use the same port.
    fn stop_servers(&mut self) -> Result<(), String> {
        let servers = self.lasting.extract_if(.., |lasting| lasting.is_server);
        for server in servers.collect::<Vec<_>>() {
            self.stop(&server)?;
        }
        Ok(())
    }

    fn stop(&mut self, lasting: &BackgroundCommand) -> Result<(), String> {
        let code = self.shell.stop(&lasting.group);
        if code == Some(0) || code.is_some() && !lasting.is_server {
            return Ok(());
        }
        Err(format!("`{}` ended with {code:?} when it was stopped", lasting.command))
    }

    fn output_file(&self) -> String {
        format!("{}/said/{}", self.folder.path().display(), self.number)
    }

    fn read_output(&mut self) -> String {
        let said = fs::read(self.output_file()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        self.heard += &said;
        said
    }
}

/// Matches `toolcrib serve …`, possibly with options before `serve`.
fn is_server(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.next().is_some_and(|program| program.ends_with("toolcrib"))
        && words.any(|word| word == "serve")
}

/// Whether the command is a request that changes nothing, so that it can be repeated.
fn is_read_only(text: &str) -> bool {
    ["admin ", "agent ", "cook ", "curl "].iter().any(|asks| text.starts_with(asks))
        && ![" -d ", " -X "].iter().any(|option| text.contains(option))
}

fn runs_in_background(text: &str) -> bool {
    is_server(text) || text.contains(" --follow") || text.contains("curl -N")
}

/// Expected exit code: 0, or the one in a comment such as `# exit code 3: …`.
fn expected_exit_code(text: &str) -> i32 {
    let said = text.split_once('#').and_then(|(_, comment)| comment.split_once("exit code "));
    let digit = said.and_then(|(_, rest)| rest.chars().next()?.to_digit(10));
    digit.and_then(|digit| digit.try_into().ok()).unwrap_or(0)
}

/// Replaces a placeholder by earlier output: `tcrib_cook_…` by the last word that begins with `tcrib_cook_`.
/// A lone `…` stays.
fn with_placeholders_filled(text: &str, heard: &str) -> Result<String, String> {
    let is_of_word = |character: char| character.is_alphanumeric() || "_-".contains(character);
    let mut parts = text.split('…').peekable();
    let mut whole = String::new();
    while let Some(part) = parts.next() {
        whole += part;
        if parts.peek().is_none() {
            break;
        }
        let start = part.rfind(|character| !is_of_word(character)).map_or(0, |place| place + 1);
        let beginning = part.get(start..).unwrap_or_default();
        if beginning.is_empty() {
            whole.push('…');
            continue;
        }
        let words = heard.split(|character| !is_of_word(character));
        let mut ends = words.filter_map(|word| word.strip_prefix(beginning));
        match ends.rfind(|end| !end.is_empty()) {
            Some(end) => whole += end,
            None => return Err(format!("nothing was printed that begins with `{beginning}`")),
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_with_earlier_output() {
        let heard = "key: tcrib_a_old\nkey: tcrib_a_1Xy-z_9\nand tcrib_a_…";
        assert_eq!(
            with_placeholders_filled("A=tcrib_a_… b", heard).unwrap(),
            "A=tcrib_a_1Xy-z_9 b"
        );
        assert_eq!(with_placeholders_filled("A=… b", heard).unwrap(), "A=… b");
        assert!(with_placeholders_filled("A=tcrib_b_…", heard).is_err());
    }

    #[test]
    fn a_comment_states_the_exit_code() {
        assert_eq!(expected_exit_code("a b  # nothing; exit code 2: something would change"), 2);
        assert_eq!(expected_exit_code("a b  # what it does"), 0);
    }

    #[test]
    fn a_wrong_page_is_detected() {
        let command = |text: &str, output: &[&str]| Command {
            line: 1,
            heading: String::new(),
            text: text.to_owned(),
            output: output.iter().map(|line| (*line).to_owned()).collect(),
        };
        let mut reader = Reader::new();
        reader.read("page", &command("cat new.txt", &["hello"]));
        reader.read("page", &command("A=$(cat new.txt); test -d examples", &[]));
        reader.read("page", &command("echo $A; toolcrib --version", &["hello", "toolcrib …"]));
        reader.read("page", &command("(exit 3)  # exit code 3", &[]));
        assert_eq!(reader.mistakes, [""; 0]);
        reader.read("page", &command("false | true", &[]));
        reader.read("page", &command("echo $A", &["hallo"]));
        reader.read("page", &command("curl -s http://127.0.0.1:8080/", &[]));
        assert_eq!(reader.finish("page").len(), 3);
    }
}
