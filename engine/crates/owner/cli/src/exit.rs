//! The exit codes: the one table from which `--help` of every command and the reference page are
//! made.

use std::fmt::Write;

use clap::Command;

/// What each code says of any command, and what a program is to know of it: one line for each.
macro_rules! exits {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $words:literal;)+) => {
        /// How a command ends without success.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Exit {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Exit {
            /// The process's exit code.
            pub(crate) const fn code(self) -> u8 {
                match self {
                    $(Exit::$name => $code,)+
                }
            }

            /// What it says, unless a command's row says it more exactly.
            const fn words(self) -> &'static str {
                match self {
                    $(Exit::$name => $words,)+
                }
            }
        }
    };
}

exits! {
    /// A check failed, or data is not what it should be.
    Check = 1, "a check failed, or data is not what it should be";
    /// The command was used wrongly.
    Usage = 2, "the command was used wrongly";
    /// Keyring, passphrase or a key.
    Keys = 3, "keyring, passphrase or a key";
    /// The policy forbids it, or is not valid.
    Policy = 4, "the policy forbids it, or is not valid";
    /// Reading or writing failed.
    Io = 5, "reading or writing failed";
    /// All was done, and there are warnings.
    Warnings = 6, "there are warnings";
}

/// The codes of one command.
struct Row {
    /// As typed after `coffer`.
    command: &'static str,
    /// What 0 says.
    done: &'static str,
    /// Those that it has, in order, with what they say of it.
    exits: &'static [(Exit, &'static str)],
}

const fn row(
    command: &'static str,
    done: &'static str,
    exits: &'static [(Exit, &'static str)],
) -> Row {
    Row {
        command,
        done,
        exits,
    }
}

const CHECK: (Exit, &str) = (Exit::Check, Exit::Check.words());
const USAGE: (Exit, &str) = (Exit::Usage, Exit::Usage.words());
const KEYS: (Exit, &str) = (Exit::Keys, Exit::Keys.words());
const POLICY: (Exit, &str) = (Exit::Policy, Exit::Policy.words());
const NOT_VALID: (Exit, &str) = (Exit::Policy, "the policy is not valid");
const IO: (Exit, &str) = (Exit::Io, Exit::Io.words());
const READING: (Exit, &str) = (Exit::Io, "reading failed");
const PYTHON: (Exit, &str) = (Exit::Io, "Python or the package coffer is missing");
const WARNINGS: (Exit, &str) = (Exit::Warnings, Exit::Warnings.words());

const DONE: &str = "done";
const ALL: &[(Exit, &str)] = &[CHECK, USAGE, KEYS, POLICY, IO, WARNINGS];
const OF_TABLES: &[(Exit, &str)] = &[CHECK, USAGE, KEYS, POLICY, IO];
const OF_KEYS: &[(Exit, &str)] = &[USAGE, KEYS, POLICY, IO];

/// Every command has its row.
const ROWS: &[Row] = &[
    row("", DONE, ALL),
    row("init", DONE, OF_KEYS),
    row("encrypt", DONE, OF_TABLES),
    row("adopt", DONE, OF_TABLES),
    row("decrypt", DONE, OF_TABLES),
    row("inspect", DONE, OF_TABLES),
    row("keys", DONE, OF_TABLES),
    row("keys list", DONE, OF_KEYS),
    row("keys create", DONE, OF_KEYS),
    row("keys rotate", DONE, OF_KEYS),
    row(
        "keys rewrap",
        "all keys are under the newest version",
        &[
            (
                Exit::Check,
                "--data: the table is not what it should be, or another writer changed it \
                 meanwhile",
            ),
            USAGE,
            (
                Exit::Keys,
                "keyring, passphrase or a key; keys that could not be rewrapped are named, the \
                    others are done",
            ),
            (
                Exit::Policy,
                "the policy or a zone forbids it, or the policy is not valid",
            ),
            IO,
        ],
    ),
    row("keys disable", DONE, OF_KEYS),
    row("keys enable", DONE, OF_KEYS),
    row(
        "keys destroy",
        DONE,
        &[
            (
                Exit::Check,
                "tables or links need it; they are named, and nothing was done",
            ),
            (
                Exit::Usage,
                "the command was used wrongly, or was not confirmed",
            ),
            KEYS,
            NOT_VALID,
            IO,
        ],
    ),
    row("keys export", DONE, OF_TABLES),
    row("keys import", DONE, OF_TABLES),
    row(
        "keys recover",
        DONE,
        &[
            (
                Exit::Check,
                "shares are too few, of two sets, altered, or not shares",
            ),
            USAGE,
            (Exit::Keys, "there is a keyring already, or no passphrase"),
            IO,
        ],
    ),
    row("keys zones", DONE, OF_KEYS),
    row(
        "keys verify",
        "every key can be had",
        &[
            (Exit::Check, "some cannot; they are named"),
            USAGE,
            (Exit::Keys, "keyring or passphrase"),
            NOT_VALID,
            IO,
        ],
    ),
    row("keys export-keks", DONE, OF_TABLES),
    row("keys passwd", DONE, OF_KEYS),
    row(
        "keys serve",
        "it was stopped",
        &[
            (Exit::Check, "it cannot start"),
            USAGE,
            (Exit::Io, "coffer-client is missing"),
        ],
    ),
    row("keys forget", DONE, OF_KEYS),
    row("kms", "stdin has ended", OF_KEYS),
    row("verify", "it is what it should be", ALL),
    row("policy", DONE, ALL),
    row(
        "policy check",
        "nothing to warn of",
        &[
            (Exit::Check, "a sealed table is not what it should be"),
            USAGE,
            KEYS,
            (
                Exit::Policy,
                "the policy is not valid, or does not name the table",
            ),
            READING,
            WARNINGS,
        ],
    ),
    row("policy sign", DONE, OF_KEYS),
    row("policy show", DONE, OF_KEYS),
    row(
        "policy compare",
        "both were read, whether they differ or not",
        &[
            (Exit::Check, "one is no release that this version reads"),
            USAGE,
            READING,
        ],
    ),
    row(
        "policy advise",
        "every statement can run under both proposals",
        &[(Exit::Check, "one cannot, and why"), USAGE, PYTHON],
    ),
    row("audit", DONE, OF_TABLES),
    row("audit show", DONE, OF_TABLES),
    row(
        "audit verify",
        "the log is whole",
        &[
            (Exit::Check, "it is broken, and at which record"),
            USAGE,
            (Exit::Keys, "keyring, passphrase or register"),
            READING,
        ],
    ),
    row(
        "doctor",
        "nothing was found",
        &[
            (Exit::Check, "there are findings"),
            USAGE,
            NOT_VALID,
            (
                Exit::Io,
                "reading the configuration failed, or nobody answers at the URL",
            ),
        ],
    ),
    row(
        "engine",
        "it was stopped",
        &[
            (Exit::Check, "it cannot start"),
            USAGE,
            (Exit::Io, "coffer-engine is missing"),
        ],
    ),
    row(
        "sql",
        DONE,
        &[(Exit::Check, "a query failed"), USAGE, PYTHON],
    ),
    row(
        "explain",
        "the query can run",
        &[(Exit::Check, "it cannot, and why"), USAGE, PYTHON],
    ),
    row("reference", DONE, &[USAGE]),
];

/// A command and those below it, each with its exit codes behind its help.
pub(crate) fn document(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, name: &str) -> Command {
    let command = match ROWS.iter().find(|row| row.command == name) {
        Some(row) => command.after_help(row.text()),
        None => command,
    };
    command.mut_subcommands(|inner| {
        let name = format!("{name} {}", inner.get_name());
        below(inner, name.trim_start())
    })
}

impl Row {
    fn text(&self) -> String {
        let mut text = format!("Exit codes:\n  0  {}", self.done);
        for (exit, words) in self.exits {
            let _ = write!(text, "\n  {}  {words}", exit.code());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn names(command: &Command, name: &str, all: &mut Vec<String>) {
        all.push(name.to_owned());
        for inner in command.get_subcommands() {
            let name = format!("{name} {}", inner.get_name());
            names(inner, name.trim_start(), all);
        }
    }

    #[test]
    fn every_command_has_one_row_in_the_order_of_the_codes() {
        let mut commands = Vec::new();
        names(&Cli::command(), "", &mut commands);
        commands.sort();
        let mut rows: Vec<_> = ROWS.iter().map(|row| row.command).collect();
        rows.sort_unstable();
        assert_eq!(commands, rows);
        for row in ROWS {
            assert!(
                row.exits.is_sorted_by_key(|(exit, _)| exit.code()),
                "{}",
                row.command
            );
        }
    }
}
