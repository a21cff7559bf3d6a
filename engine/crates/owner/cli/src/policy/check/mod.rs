//! `coffer policy check`: what each column shows and to whom, in words, and what is known to break.
//!
//! It changes nothing. The policy alone is enough; where the keyring can be opened, the sealed
//! tables say their types, how many values a column has, and whether rows lie in the order of one.
//! What it cannot see, it calls unknown.

mod links;
mod look;
mod report;
mod shows;
mod size;
mod warnings;

use std::collections::BTreeSet;

use coffer_custody::{
    ColumnPolicy, Draft, Policy, TablePolicy, Vault, policy::signed::looks_signed,
};
use coffer_protocol::EvidenceKinds;
use coffer_schemes::{Leakage, Opener, Protection, Setting};
use links::Linked;
use look::{Look, SeenColumn};
use warnings::Warning;

use crate::{
    args::PolicyCheck,
    failure::{Exit, Failure},
    site::Site,
};

pub(crate) use warnings::reference;

/// What stands for the columns that a policy does not name, where the table is not there to name
/// them.
const OTHERS: &str = "(others)";

/// One table of the policy.
struct CheckedTable {
    name: String,
    /// What the sealed table says; else why it says nothing.
    look: Result<Look, &'static str>,
    columns: Vec<CheckedColumn>,
}

/// One column, as it is stored where the table could be looked at, else as the policy has it.
struct CheckedColumn {
    name: String,
    /// As which it is stored.
    protections: Vec<Protection>,
    /// What the policy says of it.
    rules: ColumnPolicy,
    /// What an engine must show together to get its keys.
    wanted: EvidenceKinds,
    /// What the sealed table says of it.
    seen: Option<SeenColumn>,
    /// What its link makes comparable with it.
    linked: Linked,
}

impl CheckedColumn {
    fn has(&self, protection: Protection) -> bool {
        self.protections.contains(&protection)
    }

    /// Whether someone who holds the files sees a value's place among others: by equality or by
    /// order.
    fn is_comparable(&self) -> bool {
        self.protections
            .iter()
            .any(|protection| protection.uses(Setting::Link))
    }

    /// Whether the order of its values shows, or of their first bytes.
    fn is_ordered(&self) -> bool {
        let order = [Leakage::Order, Leakage::PrefixOrder];
        let shown = |protection: &Protection| {
            let shows = protection.treatment(self.is_of_texts()).shows;
            order.iter().any(|order| shows.contains(order))
        };
        self.protections.iter().any(shown)
    }

    /// Whether it is known to hold texts, of whose order only a prefix is kept.
    fn is_of_texts(&self) -> bool {
        self.prefix().is_some()
    }

    /// Who can have its values, by each of its protections.
    fn openers(&self) -> impl Iterator<Item = Opener> {
        let texts = self.is_of_texts();
        (self.protections.iter()).map(move |protection| protection.treatment(texts).opened_by)
    }

    /// Whether its values could not be had again if it turned out to hold texts.
    fn is_closed_as_texts(&self) -> bool {
        let opens =
            |protection: &Protection| protection.treatment(true).opened_by != Opener::Nobody;
        !self.protections.iter().any(opens)
    }

    /// How many bytes of a text are in its order; none of what is no text, or not known to be one.
    fn prefix(&self) -> Option<u32> {
        let pinned = self
            .seen
            .iter()
            .flat_map(|seen| &seen.stored)
            .find_map(|stored| stored.prefix);
        pinned.or_else(|| self.rules.prefix())
    }

    /// Whether its values can be had again from what is stored.
    fn opens(&self) -> bool {
        self.openers().any(|opener| opener != Opener::Nobody)
    }
}

pub(super) fn run(site: &Site, args: &PolicyCheck) -> Result<(), Failure> {
    warnings::check_ids(&args.accept)?;
    let policy = site.draft()?;
    if !looks_signed(&site.config_dir()?) {
        eprintln!(
            "note: this policy is not signed yet, and nothing uses it before it is: coffer policy \
                sign"
        );
    }
    for name in &args.tables {
        policy.table(name)?;
    }
    let wanted: Vec<&TablePolicy> = (policy.tables())
        .filter(|table| {
            args.tables.is_empty() || args.tables.iter().any(|name| name == table.name())
        })
        .collect();
    let opened = opened(site, args, &wanted)?;
    let mut tables = Vec::new();
    for table in policy.tables() {
        let is_wanted = wanted.iter().any(|wanted| wanted.name() == table.name());
        let look = match &opened {
            _ if table.id().is_none() => Err("it is not encrypted yet"),
            Some(Ok((signed, vault))) if is_wanted => {
                look::look(&site.config_dir()?, vault, signed, table.name())?
            }
            Some(Err(why)) => Err(*why),
            _ => Err("the keyring was not opened: give the passphrase, or --unlock"),
        };
        tables.push(checked(table, look));
    }
    links::join(&mut tables);
    let is_accepted = |warning: &Warning| args.accept.iter().any(|id| id == warning.kind.id);
    let is_reported = |name: &str| wanted.iter().any(|wanted| wanted.name() == name);
    let mut found = warnings::find(&policy, &tables, &is_reported);
    found.retain(|warning| !is_accepted(warning));
    tables.retain(|table| is_reported(&table.name));
    if args.json {
        report::json(&policy, &tables, &found, &args.accept);
    } else {
        print!("{}", report::text(&policy, &tables, &found));
    }
    if found.is_empty() {
        return Ok(());
    }
    let (warnings, tables) = (found.len(), count(&tables));
    let s = if warnings == 1 { "" } else { "s" };
    Err(Failure::new(
        Exit::Warnings,
        format!("{warnings} warning{s} on {tables} of the policy"),
    )
    .hint("what you accept can be named with --accept"))
}

fn count(tables: &[CheckedTable]) -> String {
    match tables.len() {
        1 => "one table".to_owned(),
        tables => format!("{tables} tables"),
    }
}

/// The policy with its keys, or why it is not used.
type Opened = Result<(Policy, Vault), &'static str>;

/// The keys, where a table is there to be opened and the passphrase is given, or to be asked for.
fn opened(
    site: &Site,
    args: &PolicyCheck,
    wanted: &[&TablePolicy],
) -> Result<Option<Opened>, Failure> {
    let sealed = wanted.iter().any(|table| table.id().is_some());
    if sealed && (args.unlock || site.given_passphrase()?.is_some()) {
        if looks_signed(&site.config_dir()?) {
            return Ok(Some(Ok(site.open_config_dir()?)));
        }
        // The tables are as they were made, and it is what will be said of them that is looked at
        // here.
        let keyring = site.keyring()?;
        return Ok(Some(
            match coffer_catalog::policy::last(&site.config_dir()?, &keyring) {
                Ok(last) => {
                    let masters = coffer_kms::of(&last);
                    Ok((last, Vault::new(keyring, masters)))
                }
                Err(_) => Err("no policy was signed yet, so no table is opened"),
            },
        ));
    }
    Ok(None)
}

fn checked(table: &TablePolicy, look: Result<Look, &'static str>) -> CheckedTable {
    let column = |name: &str, rules: &ColumnPolicy, seen: Option<SeenColumn>| CheckedColumn {
        name: name.to_owned(),
        protections: match &seen {
            Some(seen) => seen.protections.clone(),
            None => rules.protections().to_vec(),
        },
        rules: rules.clone(),
        wanted: table.evidence([name]),
        seen,
        linked: Linked::default(),
    };
    let columns = match &look {
        Ok(look) => (look.columns.iter())
            .map(|seen| column(&seen.name, table.column(&seen.name), Some(seen.clone())))
            .collect(),
        Err(_) => (table.columns())
            .map(|(name, rules)| column(name, rules, None))
            .chain([column(OTHERS, table.column(""), None)])
            .collect(),
    };
    CheckedTable {
        name: table.name().to_owned(),
        look,
        columns,
    }
}

/// Its kinds of evidence, as one text.
fn evidence(policy: &Draft) -> Vec<&'static str> {
    let kinds: BTreeSet<&str> = policy
        .accepted_evidence()
        .iter()
        .map(|kind| kind.name())
        .collect();
    kinds.into_iter().collect()
}
