//! `docs/reference/cli.md`, from the help texts; and the table of the protections, for
//! `docs/reference/schemes.md` and for programs.

use clap::{Command, CommandFactory};

use crate::{
    args::{Cli, Reference},
    doctor, exit,
    failure::Failure,
    output, policy,
};

mod protections;

const HEAD: &str = "\
# The `coffer` command line

Made from the program's help texts by `coffer reference`; a test fails when this page is stale.

Data goes to stdout, words to stderr: an `error:` line, then mostly a `hint:` line. Progress is \
shown only when stderr is a
terminal. The passphrase comes from `--passphrase-file`, else from `COFFER_PASSPHRASE`, else from \
a prompt. Nothing is
half done: a table counts from the moment its manifest is published, which is the last step; what \
an interrupted command
left behind is named by `coffer verify` and removed by `coffer verify --clean`.
";

pub(crate) fn print(args: &Reference) -> Result<(), Failure> {
    match (args.protections, args.json) {
        (true, true) => output::json(&protections::json()),
        (true, false) => print!("{}", protections::text()),
        (false, _) => print!("{}", text()),
    }
    Ok(())
}

fn text() -> String {
    let mut text = HEAD.to_owned();
    section(&mut text, exit::document(Cli::command()), "coffer");
    text
}

fn section(text: &mut String, mut command: Command, name: &str) {
    command = command
        .bin_name(name)
        .term_width(100)
        .disable_help_subcommand(true);
    command.build();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!(
        "\n## `{name}`\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    ));
    if name == "coffer doctor" {
        text.push_str("\nThe checks:\n\n");
        text.push_str(&doctor::reference());
    }
    if name == "coffer policy check" {
        text.push_str("\nThe warnings:\n\n");
        text.push_str(&policy::reference());
    }
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        section(text, inner.clone(), &format!("{name} {}", inner.get_name()));
    }
}
