//! `coffer keys create | rotate | enable | disable | destroy`

use coffer_audit::Event;
use coffer_catalog::Register;
use coffer_custody::{MasterInfo, MasterState, Vault};
use serde_json::json;

use super::{
    args::{Destroy, Named},
    list::master_json,
};
use crate::{
    audit,
    failure::{Exit, Failure},
    output,
    site::Site,
};

pub(super) fn create(site: &Site, args: &Named) -> Result<(), Failure> {
    let (_, vault) = site.open_config_dir()?;
    note(site, &vault, "keys create", args)?;
    let state = vault.master(&args.name).create()?;
    report(&vault, args, &state);
    shares_are_older();
    Ok(())
}

pub(super) fn rotate(site: &Site, args: &Named) -> Result<(), Failure> {
    let (_, vault) = site.open_config_dir()?;
    note(site, &vault, "keys rotate", args)?;
    let state = vault.master(&args.name).rotate()?;
    report(&vault, args, &state);
    eprintln!(
        "New keys are wrapped by this version. Older ones stay under theirs until coffer keys \
            rewrap --all."
    );
    eprintln!(
        "After a compromise that is not enough: coffer keys rewrap --data re-encrypts a table."
    );
    shares_are_older();
    Ok(())
}

/// Tells the audit log what is about to be done with a master.
fn note(site: &Site, vault: &Vault, action: &str, args: &Named) -> Result<(), Failure> {
    let event = Event::granted(action)
        .detail("master", &args.name)
        .detail("kept", vault.master(&args.name).describe());
    audit::note(site, vault.keyring(), event)
}

/// Of a master in the keyring.
fn shares_are_older() {
    eprintln!("Exports and shares of the keyring that were made before do not hold it.");
}

fn report(vault: &Vault, args: &Named, state: &MasterState) {
    let what = vault.master(&args.name).describe();
    if args.json {
        output::json(&json!({
            "name": args.name, "what": what, "version": state.version, "enabled": state.enabled,
                "created": state.created,
        }));
    } else {
        println!("{} {what} version {}", args.name, state.version);
    }
}

pub(super) fn set_enabled(site: &Site, args: &Named, enabled: bool) -> Result<(), Failure> {
    let (_, vault) = site.open_config_dir()?;
    in_keyring(
        &vault,
        &args.name,
        if enabled { "enabled" } else { "disabled" },
    )?;
    note(
        site,
        &vault,
        if enabled {
            "keys enable"
        } else {
            "keys disable"
        },
        args,
    )?;
    let info = vault.keyring().set_enabled(&args.name, enabled)?;
    show(&info, args.json);
    if !enabled {
        eprintln!(
            "Tables that are open stay open; none is opened under it until coffer keys enable {}.",
            info.name
        );
    }
    Ok(())
}

pub(super) fn destroy(site: &Site, args: &Destroy) -> Result<(), Failure> {
    let (_, vault) = site.open_config_dir()?;
    in_keyring(&vault, &args.name, "destroyed")?;
    // Say what is wrong with the name before asking for anything.
    vault.keyring().master_info(&args.name)?;
    if args.really.as_ref().is_some_and(|name| *name != args.name) {
        return Err(Failure::usage("--really names another master")
            .hint("say the same name twice, if you mean it"));
    }
    if !args.yes {
        return Err(
            Failure::usage(format!("destroying {} cannot be undone", args.name)).hint(
                "--yes does it, if nothing needs it; an export made before (coffer keys export) \
                    would bring it back",
            ),
        );
    }
    let event = |event: Event| {
        let version = args
            .version
            .map_or_else(|| "all".to_owned(), |version| version.to_string());
        let event = event
            .detail("master", &args.name)
            .detail("version", version);
        match args.really.is_some() {
            true => event.detail("needed", "given up"),
            false => event,
        }
    };
    audit::note(site, vault.keyring(), event(Event::granted("keys destroy")))?;
    let register = Register::of(&site.config_dir()?, vault.keyring());
    let destroyed =
        register.destroy_master(&vault, &args.name, args.version, args.really.is_some());
    let destroyed = match destroyed {
        Err(error @ coffer_catalog::Error::MasterNeeded { .. }) => {
            let refused = Event::refused("keys destroy", "master_needed", error.to_string());
            audit::note(site, vault.keyring(), event(refused))?;
            return Err(Failure::new(Exit::Check, error.to_string()).hint(format!(
                "{}; --really {} destroys it all the same, and them with it",
                error.hint().unwrap_or_default(),
                args.name
            )));
        }
        destroyed => destroyed?,
    };
    show(&destroyed.info, args.json);
    for key in destroyed.lost {
        eprintln!("warning: `{}` can never be opened again", key.name);
    }
    if destroyed.files {
        eprintln!(
            "warning: PyArrow and Spark can never again open the files whose keys it wrapped for \
                them"
        );
    }
    Ok(())
}

fn show(info: &MasterInfo, as_json: bool) {
    if as_json {
        output::json(&master_json(info));
    } else {
        print!(
            "{}",
            output::table(&super::list::master_rows(std::slice::from_ref(info)))
        );
    }
}

fn in_keyring(vault: &Vault, name: &str, what: &str) -> Result<(), Failure> {
    if vault.is_outside(name) {
        let of = vault.master(name).describe();
        return Err(Failure::usage(format!("{of} cannot be {what} from here"))
            .hint("do it with the server's own tools"));
    }
    Ok(())
}
