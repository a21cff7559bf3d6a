//! `coffer doctor`: what of Spark's own security is off or weak, for what Coffer does not cover.
//!
//! It reads settings only, and changes nothing. What it cannot see it does not judge: a setting
//! that is not there counts as Spark 4.1's default. [`checks`] holds the checks, one place for
//! each: id, severity, why it matters, what mends it.

mod checks;
mod posture;
mod properties;
mod rest;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use checks::{ALL, Check, Severity};
use coffer_custody::{ConfigDir, Draft, policy::signed::looks_signed};
use posture::Posture;
use serde_json::json;

use crate::{
    args::Doctor,
    failure::{Exit, Failure},
    output,
    site::Site,
};

/// What a check found in this configuration.
struct Finding {
    check: &'static Check,
    what: String,
}

pub(crate) fn run(site: &Site, args: &Doctor) -> Result<(), Failure> {
    if args.list {
        list();
        return Ok(());
    }
    let checks = wanted(&args.accept)?;
    let (source, mut posture) = look(args)?;
    posture.policy = policy(site, &posture)?;
    let findings: Vec<Finding> = checks
        .iter()
        .filter_map(|check| (check.find)(&posture).map(|what| Finding { check, what }))
        .collect();
    if args.json {
        report_json(&source, checks.len(), &findings, &args.accept);
    } else {
        report(&findings);
    }
    let counts = [Severity::High, Severity::Medium, Severity::Low]
        .map(|severity| {
            (
                severity,
                findings
                    .iter()
                    .filter(|f| f.check.severity == severity)
                    .count(),
            )
        })
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(severity, count)| format!("{count} {}", severity.name()))
        .collect::<Vec<_>>();
    if findings.is_empty() {
        if !args.json {
            println!("sound: {} checks of {source}", checks.len());
        }
        return Ok(());
    }
    Err(Failure::new(
        Exit::Check,
        format!(
            "{source}: {} of {} checks found something: {}",
            findings.len(),
            checks.len(),
            counts.join(", ")
        ),
    )
    .hint("what you accept can be named with --accept"))
}

/// All checks but the accepted ones.
fn wanted(accepted: &[String]) -> Result<Vec<&'static Check>, Failure> {
    let all = || ALL.iter().copied().flatten();
    for id in accepted {
        if !all().any(|check| check.id == id) {
            return Err(Failure::usage(format!("there is no check `{id}`"))
                .hint("coffer doctor --list shows them"));
        }
    }
    Ok(all()
        .filter(|check| !accepted.iter().any(|id| id == check.id))
        .collect())
}

/// The settings, and where they come from.
fn look(args: &Doctor) -> Result<(String, Posture), Failure> {
    if let Some(url) = &args.url {
        return Ok((url.clone(), rest::ask(url)?));
    }
    if let Some(file) = &args.environment {
        let text = if **file == *Path::new("-") {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::io("read", Path::new("stdin"), error))?;
            text
        } else {
            fs::read_to_string(file).map_err(|error| Failure::io("read", file, error))?
        };
        let posture = rest::environment(&text)
            .map_err(|reason| Failure::usage(format!("{}: {reason}", file.display())))?;
        return Ok((file.display().to_string(), posture));
    }
    let mut settings = Vec::new();
    let mut source = "the settings given".to_owned();
    if let Some(file) = args
        .properties_file
        .as_deref()
        .map(Path::to_path_buf)
        .or_else(defaults)
    {
        let text = fs::read_to_string(&file).map_err(|error| Failure::io("read", &file, error))?;
        settings.extend(properties::parse(&text));
        source = file.display().to_string();
    } else if args.conf.is_empty() && args.master.is_none() && args.deploy_mode.is_none() {
        return Err(Failure::usage("there is no configuration to look at").hint(
            "name one with --properties-file, give settings with --conf, or a running \
                application with --url",
        ));
    }
    settings.extend(args.conf.iter().cloned());
    settings.extend(
        args.master
            .iter()
            .map(|master| ("spark.master".to_owned(), master.clone())),
    );
    settings.extend(
        args.deploy_mode
            .iter()
            .map(|mode| ("spark.submit.deployMode".to_owned(), mode.clone())),
    );
    Ok((source, Posture::new(settings)))
}

/// Where spark-submit looks, if there is a file.
fn defaults() -> Option<PathBuf> {
    let folder = match std::env::var_os("SPARK_CONF_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("SPARK_HOME")?).join("conf"),
    };
    Some(folder.join("spark-defaults.conf")).filter(|file| file.is_file())
}

/// The owner's policy, where this application would find it; none is no error, since keys need not
/// be on this machine.
fn policy(site: &Site, posture: &Posture) -> Result<Option<Draft>, Failure> {
    // The second is its old name, which the plugin still reads.
    let settings = ["spark.coffer.configDir", "spark.coffer.home"];
    let named = settings.into_iter().find_map(|key| posture.get(key));
    let config_dir = match (site.named_config_dir(), named) {
        (None, Some(named)) => ConfigDir::at(named),
        _ => site.config_dir()?,
    };
    let path = config_dir.policy();
    if !path.exists() {
        eprintln!(
            "note: there is no policy at {}; what it allows was not looked at",
            path.display()
        );
        return Ok(None);
    }
    if !looks_signed(&config_dir) {
        eprintln!(
            "note: this policy is not signed, and nothing uses it before it is: coffer policy sign"
        );
    }
    Ok(Some(Draft::load(&path)?))
}

fn report(findings: &[Finding]) {
    for Finding { check, what } in findings {
        println!("{:<6}  {}: {what}", check.severity.name(), check.id);
        println!("        why: {}", check.why);
        println!("        set: {}", check.set);
    }
}

fn report_json(source: &str, checks: usize, findings: &[Finding], accepted: &[String]) {
    let findings: Vec<_> = findings
        .iter()
        .map(|Finding { check, what }| {
            json!({ "id": check.id, "severity": check.severity.name(), "what": what,
                "why": check.why, "set": check.set })
        })
        .collect();
    output::json(
        &json!({ "source": source, "checks": checks, "findings": findings, "accepted": accepted }),
    );
}

fn list() {
    for check in ALL.iter().copied().flatten() {
        println!("{:<6}  {}", check.severity.name(), check.id);
        println!("        why: {}", check.why);
        println!("        set: {}", check.set);
    }
}

/// The checks as a Markdown table, for the reference.
pub(crate) fn reference() -> String {
    let mut text =
        String::from("| id | severity | why it matters | what mends it |\n|---|---|---|---|\n");
    for check in ALL.iter().copied().flatten() {
        let (severity, cell) = (check.severity.name(), |words: &str| {
            words.replace('|', "\\|")
        });
        text.push_str(&format!(
            "| `{}` | {severity} | {} | {} |\n",
            check.id,
            cell(check.why),
            cell(check.set)
        ));
    }
    text
}
