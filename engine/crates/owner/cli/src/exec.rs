//! `coffer engine`, `coffer keys serve`, `coffer sql`: other programs take this one's place.

use std::{
    env,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use coffer_custody::location::local;

use crate::{
    args::{Explain, Passed, PolicyAdvise, Sql},
    failure::{Exit, Failure},
    keys::args::Serve,
    site::Site,
};

pub(crate) fn engine(args: &Passed) -> Result<(), Failure> {
    let program = beside()?.join("coffer-engine");
    if !program.is_file() {
        return Err(Failure::new(
            Exit::Io,
            format!("there is no coffer-engine at {}", program.display()),
        )
        .hint("install it into the same folder as coffer"));
    }
    Err(replace(
        Command::new(&program).args(&args.arguments),
        &program,
    ))
}

/// The key service, in this process's place. The passphrase goes by file or environment, as it
/// came.
pub(crate) fn serve(site: &Site, asked: &Serve) -> Result<(), Failure> {
    let program = beside()?.join("coffer-client");
    if !program.is_file() {
        return Err(Failure::new(
            Exit::Io,
            format!("there is no coffer-client at {}", program.display()),
        )
        .hint("install it into the same folder as coffer"));
    }
    let mut command = Command::new(&program);
    command.arg("--config-dir").arg(site.config_dir()?.path());
    if let Some(address) = asked.listen {
        command.arg("--serve-tls").arg(address.to_string());
    }
    let files = [
        ("--serve", &asked.socket),
        ("--tls-certificate", &asked.certificate),
        ("--tls-key", &asked.key),
        ("--tls-users", &asked.users),
    ];
    for (option, file) in files {
        if let Some(file) = file {
            command.arg(option).arg(&**file);
        }
    }
    if let Some(file) = site.passphrase_file() {
        command.arg("--passphrase-file").arg(file);
    }
    Err(replace(&mut command, &program))
}

pub(crate) fn sql(site: &Site, args: &Sql) -> Result<(), Failure> {
    python(
        site,
        "sql",
        args.query.as_deref(),
        args.file.as_deref(),
        |command| {
            command.args(&args.arguments);
        },
    )
}

pub(crate) fn explain(site: &Site, args: &Explain) -> Result<(), Failure> {
    python(
        site,
        "explain",
        args.query.as_deref(),
        args.file.as_deref(),
        |command| {
            command.args(args.without_enclaves.then_some("--without-enclaves"));
            command.args(args.json.then_some("--json"));
        },
    )
}

pub(crate) fn advise(site: &Site, args: &PolicyAdvise) -> Result<(), Failure> {
    // Each may be NAME=PATH.
    let paths = args.tables.iter().map(|table| {
        table
            .split_once('=')
            .map_or(table.as_str(), |named| named.1)
    });
    paths.map(local).collect::<Result<Vec<_>, _>>()?;
    python(site, "advise", None, None, |command| {
        if let Some(bytes) = args.bring_to_client {
            command.arg("--bring-to-client").arg(bytes.to_string());
        }
        if let Some(file) = &args.write {
            command.arg("--write").arg(file.as_os_str());
        }
        command.args(args.without_enclaves.then_some("--without-enclaves"));
        command.args(args.json.then_some("--json"));
        command
            .arg("--")
            .arg(args.queries.as_os_str())
            .args(&args.tables);
    })
}

/// `python -m coffer NAME`, over one query or file if there is one.
fn python(
    site: &Site,
    name: &str,
    query: Option<&str>,
    file: Option<&Path>,
    more: impl FnOnce(&mut Command),
) -> Result<(), Failure> {
    let python =
        env::var_os("COFFER_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let mut command = Command::new(&python);
    command
        .args(["-m", "coffer", name])
        .arg("--config-dir")
        .arg(site.config_dir()?.path());
    if let Some(file) = site.passphrase_file() {
        command.arg("--passphrase-file").arg(file);
    }
    if let Some(query) = query {
        command.arg("-e").arg(query);
    }
    if let Some(file) = file {
        command.arg("-f").arg(file);
    }
    more(&mut command);
    command.env("COFFER_BIN", beside()?);
    Err(replace(&mut command, &python).hint(format!(
        "coffer {name} needs Python with the package coffer; COFFER_PYTHON names another Python"
    )))
}

fn beside() -> Result<PathBuf, Failure> {
    let own = env::current_exe()
        .map_err(|error| Failure::io("find", Path::new("coffer itself"), error))?;
    Ok(own.parent().map(Path::to_path_buf).unwrap_or_default())
}

/// Returns only if it failed.
fn replace(command: &mut Command, program: &Path) -> Failure {
    let error = command.exec();
    Failure::io("run", program, error)
}
