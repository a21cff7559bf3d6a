//! `coffer keys zones`

use coffer_catalog::{Register, TableRecord};
use coffer_custody::{Draft, Zone};
use serde_json::json;

use crate::{failure::Failure, output, site::Site};

pub(super) fn run(site: &Site, unlock: bool, as_json: bool) -> Result<(), Failure> {
    let (policy, tables) = match unlock || site.given_passphrase()?.is_some() {
        true => {
            let (policy, vault) = site.open_config_dir()?;
            let tables = Register::of(&site.config_dir()?, vault.keyring()).tables()?;
            (Draft::clone(&policy), tables)
        }
        // Nothing is decided by it here.
        false => (site.draft()?, Vec::new()),
    };
    // Each in its innermost zones: by all spellings of its path, and by where these lead.
    let placed = tables.into_iter().map(|table| {
        let mut zones: Vec<&Zone> = Vec::new();
        for spelling in table.spellings() {
            zones.extend(policy.zones_of(spelling)?);
        }
        Ok((zones, table))
    });
    let placed = placed.collect::<Result<Vec<(Vec<&Zone>, TableRecord)>, Failure>>()?;
    let in_zone = |zone: &Zone| -> Vec<&TableRecord> {
        let here = placed
            .iter()
            .filter(|(found, _)| found.iter().any(|found| found.name() == zone.name()));
        here.map(|(_, table)| table).collect()
    };
    if as_json {
        let zones = policy.zones().iter().map(|zone| {
            let tables = in_zone(zone);
            let tables = tables.iter().map(
                |table| json!({ "name": table.name, "path": table.path, "master": table.master }),
            );
            json!({
                "name": zone.name(), "path": zone.path(), "master": zone.master(),
                    "tables": tables.collect::<Vec<_>>(),
            })
        });
        output::json(&json!({ "zones": zones.collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut rows = vec![["zone", "master", "path"].map(String::from).to_vec()];
    rows.extend(policy.zones().iter().map(|zone| {
        vec![
            zone.name().to_owned(),
            zone.master().to_owned(),
            zone.path().display().to_string(),
        ]
    }));
    print!("{}", output::table(&rows));
    for zone in policy.zones() {
        for table in in_zone(zone) {
            if table.master != zone.master() {
                eprintln!(
                    "warning: `{}` is in the zone {:?}, and its key is wrapped by {:?}",
                    table.name,
                    zone.name(),
                    table.master
                );
                eprintln!(
                    "hint: coffer keys rewrap {} --to {}",
                    table.name,
                    zone.master()
                );
            }
        }
    }
    Ok(())
}
