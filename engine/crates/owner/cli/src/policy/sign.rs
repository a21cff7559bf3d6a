//! `coffer policy sign` and `coffer policy show`

use std::{
    fs,
    io::{BufRead, IsTerminal, Write, stderr, stdin},
};

use coffer_audit::Event;
use coffer_catalog::policy;
use coffer_custody::Review;

use crate::{args::PolicySign, audit, failure::Failure, site::Site};

pub(super) fn run(site: &Site, args: &PolicySign) -> Result<(), Failure> {
    let config_dir = site.config_dir()?;
    let from = match &args.from {
        Some(file) => {
            Some(fs::read_to_string(file).map_err(|error| Failure::io("read", file, error))?)
        }
        None => {
            // Say what is wrong with it before asking for a passphrase.
            site.draft()?;
            None
        }
    };
    let keyring = site.keyring()?;
    let review = match &from {
        Some(text) => policy::review_text(&config_dir, &keyring, text)?,
        None => policy::review(&config_dir, &keyring)?,
    };
    if review.is_signed {
        println!("{} is signed as it is", config_dir.policy().display());
        return Ok(());
    }
    show_review(&review);
    if !args.yes && !agreed()? {
        return Err(Failure::usage("nothing was signed"));
    }
    audit::note(
        site,
        &keyring,
        Event::granted("policy sign").detail("policy", review.digest().to_string()),
    )?;
    let signed = match &from {
        Some(text) => policy::replace(&config_dir, &keyring, text)?,
        None => policy::sign(&config_dir, &keyring, &review)?,
    };
    println!(
        "{}: version {}, {}",
        config_dir.policy().display(),
        signed.head().version,
        signed.digest()
    );
    Ok(())
}

/// To stderr, where the question is asked too.
fn show_review(review: &Review) {
    if let Some(trouble) = &review.trouble {
        eprintln!("warning: {trouble}");
        eprintln!("hint: compare the whole policy with what you know of it, not only what is new");
    }
    match review.difference.as_str() {
        "" => eprintln!("The text is the one that was signed last."),
        difference => eprint!("{difference}"),
    }
}

fn agreed() -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        return Err(
            Failure::usage("nobody is there to be asked").hint("--yes signs what was shown")
        );
    }
    eprint!("Sign this policy? [y/N] ");
    let failed = |error| Failure::io("read", std::path::Path::new("the terminal"), error);
    stderr().flush().map_err(failed)?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(super) fn show(site: &Site) -> Result<(), Failure> {
    let (policy, _) = site.open_config_dir()?;
    print!("{}", policy.text());
    Ok(())
}
