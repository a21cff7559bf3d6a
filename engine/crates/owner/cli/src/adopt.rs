//! `coffer adopt`: files of PyArrow or Spark, encrypted under masters of this config directory,
//! become a table as they are.

use std::{sync::Arc, time::Instant};

use coffer_audit::{Event, TableUse};
use coffer_catalog::{AdoptAs, Adoption, spelling};
use coffer_custody::FileKeys;
use serde_json::Value;

use crate::{
    args::Adopt,
    audit,
    encrypt::{note_links, record},
    failure::Failure,
    output,
    site::{self, Site},
};

pub(crate) fn run(site: &Site, args: &Adopt) -> Result<(), Failure> {
    let started = Instant::now();
    let name = match &args.name {
        Some(name) => name.clone(),
        None => site::name_of(&args.path, "PATH", "--name")?,
    };
    let config_dir = site.config_dir()?;
    let (policy, vault) = site.open_config_dir()?;
    let vault = Arc::new(vault);
    // Looking opens the keys of all files.
    let used = TableUse {
        name: name.clone(),
        write: true,
        ..TableUse::default()
    };
    let event = Event::granted("adopt")
        .table(used)
        .detail("folder", spelling::normal(&args.path)?.to_string_lossy());
    audit::note(site, vault.keyring(), event)?;
    let keys = Arc::new(FileKeys::new(Arc::clone(&vault)));
    let found = Adoption::look(&args.path, config_dir.reach(), &keys)?;
    note_links(found.spellings());
    let bar = output::progress(found.bytes(), "checking", true);
    let table = AdoptAs {
        name: &name,
        master: args.master.as_deref(),
    };
    let adopted = found.publish((&config_dir, &vault, &policy), &table, |size| bar.inc(size));
    bar.finish_and_clear();
    let sealed = adopted?;
    record(&config_dir, vault.keyring(), &policy, &sealed)?;
    output::made(args.json, "adopted", &name, &sealed, started, Value::Null);
    eprintln!(
        "From now on these files are the table, and no others. Whether they were all, and the \
            newest, before, is for you to compare."
    );
    Ok(())
}
