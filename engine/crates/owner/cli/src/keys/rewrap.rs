//! `coffer keys rewrap`

use std::time::Instant;

use coffer_audit::{Event, TableUse};
use coffer_catalog::{Error as TableError, HeldKey, Register, RewrapOptions, Rewrapped, rewrap};
use coffer_custody::{KeyContext, Policy};
use coffer_sealing::{LinkId, TableId};
use serde_json::{Value, json};

use super::{args::Rewrap, data};
use crate::{
    audit,
    failure::{Exit, Failure},
    output,
    site::Site,
};

/// Keys at once: what is waited for is mostly a server.
const THREADS: u16 = 16;

pub(super) fn run(site: &Site, args: &Rewrap) -> Result<(), Failure> {
    if args.data {
        return data::run(site, args);
    }
    let (policy, vault) = site.open_config_dir()?;
    let config_dir = site.config_dir()?;
    let register = Register::of(&config_dir, vault.keyring());
    let keys = chosen(&register, args)?;
    if let Some(to) = &args.to {
        check_zones(&policy, &keys, to)?;
    }
    audit::note(site, vault.keyring(), event(&keys, args))?;
    let options = RewrapOptions {
        to: args.to.clone(),
        threads: usize::from(args.threads.unwrap_or(THREADS)),
        again: args.again,
    };
    let mut done = Done::default();
    let bar = output::progress(u64::try_from(keys.len()).unwrap_or(0), "rewrapping", false);
    let started = Instant::now();
    let result = rewrap(&register, &vault, keys, &options, |key, outcome| {
        bar.inc(1);
        done.take(key, &outcome);
    });
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    // What was moved before a failure is moved: the policy must say so.
    if let Some(to) = &args.to {
        let known = coffer_catalog::policy::change_masters(
            &config_dir,
            vault.keyring(),
            &done.tables,
            &done.links,
            to,
        );
        known.map_err(|error| {
            eprintln!(
                "warning: the keys were moved, but the policy could not be changed; put \
                master = \"{to}\" there"
            );
            Failure::from(error)
        })?;
    }
    done.report(args.json, seconds);
    result?;
    match done.first_failure {
        None => Ok(()),
        Some(first) => Err(first),
    }
}

/// What the audit log is told: which keys, and where they are to go.
fn event(keys: &[HeldKey], args: &Rewrap) -> Event {
    let to = args.to.as_deref().unwrap_or("the newest version");
    let used = |key: &HeldKey| {
        let (name, id) = match key.context {
            KeyContext::Table(id) => (key.name.clone(), id.to_string()),
            KeyContext::Link(id) => (format!("link:{}", key.name), id.to_string()),
            KeyContext::Parquet(id) => (key.name.clone(), id.to_string()),
        };
        TableUse {
            name,
            id,
            master: key.wrapped.master.clone(),
            ..TableUse::default()
        }
    };
    Event {
        tables: keys.iter().map(used).collect(),
        ..Event::granted("keys rewrap").detail("to", to)
    }
}

/// The keys that were asked for.
fn chosen(register: &Register, args: &Rewrap) -> Result<Vec<HeldKey>, Failure> {
    let held: Vec<HeldKey> = register
        .held_keys()?
        .into_iter()
        .filter(|key| !key.pending)
        .collect();
    if args.all {
        return Ok(held);
    }
    let mut chosen = Vec::new();
    for name in &args.tables {
        let (wanted, link) = match name.strip_prefix("link:") {
            Some(link) => (link, true),
            None => (name.as_str(), false),
        };
        let is = |key: &&HeldKey| {
            key.name == wanted && matches!(key.context, KeyContext::Link(_)) == link
        };
        match held.iter().find(is) {
            Some(key) => chosen.push(key.clone()),
            None if link => {
                return Err(
                    Failure::usage(format!("the register knows no link `{wanted}`"))
                        .hint("coffer keys list shows the links of this config directory"),
                );
            }
            None => return Err(TableError::UnknownTable(wanted.to_owned()).into()),
        }
    }
    Ok(chosen)
}

/// A table stays with its zone's master.
pub(super) fn check_zones(policy: &Policy, keys: &[HeldKey], to: &str) -> Result<(), Failure> {
    for key in keys {
        let mut zones = Vec::new();
        for path in &key.paths {
            zones.extend(policy.zones_of(path)?);
        }
        if let Some(zone) = zones.into_iter().find(|zone| zone.master() != to) {
            let message = format!(
                "`{}` is in the zone {:?}, whose master is {:?}",
                key.name,
                zone.name(),
                zone.master()
            );
            return Err(Failure::new(Exit::Policy, message).hint(format!(
                "nothing was done; give the zone the master {to:?} in the policy first, if it is \
                    to have another"
            )));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Done {
    rows: Vec<Value>,
    moved: usize,
    current: usize,
    failed: usize,
    tables: Vec<(String, TableId)>,
    links: Vec<(String, LinkId)>,
    first_failure: Option<Failure>,
}

impl Done {
    fn take(&mut self, key: &HeldKey, outcome: &Rewrapped) {
        let (kind, id) = match key.context {
            KeyContext::Table(id) => ("table", id.to_string()),
            KeyContext::Link(id) => ("link", id.to_string()),
            KeyContext::Parquet(id) => ("parquet", id.to_string()),
        };
        let mut row = json!({ "name": key.name, "kind": kind, "id": id });
        let fields = match outcome {
            Rewrapped::Current(at) => {
                self.current = self.current.saturating_add(1);
                json!({ "outcome": "current", "master": at.master, "version": at.version })
            }
            Rewrapped::Moved { from, to } => {
                self.moved = self.moved.saturating_add(1);
                json!({
                    "outcome": "moved", "master": to.master, "version": to.version,
                    "from_master": from.master, "from_version": from.version,
                })
            }
            Rewrapped::Failed(error) => {
                self.failed = self.failed.saturating_add(1);
                json!({ "outcome": "failed", "error": error.to_string() })
            }
        };
        if let (Some(row), Value::Object(fields)) = (row.as_object_mut(), fields) {
            row.extend(fields);
        }
        self.rows.push(row);
        match (outcome, key.context) {
            (Rewrapped::Failed(error), _) if self.first_failure.is_none() => {
                let failure = Failure::new(
                    Exit::Keys,
                    format!("`{}` could not be rewrapped: {error}", key.name),
                );
                self.first_failure = Some(match error.hint() {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                });
            }
            (Rewrapped::Failed(error), _) => {
                eprintln!("`{}` could not be rewrapped: {error}", key.name)
            }
            (_, KeyContext::Table(id)) => self.tables.push((key.name.clone(), id)),
            (_, KeyContext::Link(id)) => self.links.push((key.name.clone(), id)),
            // The register holds none of those.
            (_, KeyContext::Parquet(_)) => {}
        }
    }

    fn report(&self, as_json: bool, seconds: f64) {
        let count = u32::try_from(self.moved).map_or(0.0, f64::from);
        let rate = if seconds > 0.0 { count / seconds } else { 0.0 };
        if as_json {
            output::json(&json!({
                "moved": self.moved, "current": self.current, "failed": self.failed,
                "seconds": seconds, "per_second": rate, "keys": self.rows,
            }));
        } else {
            println!(
                "moved {} keys in {seconds:.2} s ({rate:.0} per second); {} were under the newest \
                    version, {} failed",
                self.moved, self.current, self.failed
            );
        }
    }
}
