//! `coffer policy`

mod check;

pub(crate) use check::reference;

use crate::{
    args::{Policy, PolicyCommand},
    exec,
    failure::Failure,
    site::Site,
};

pub(crate) fn run(site: &Site, args: &Policy) -> Result<(), Failure> {
    match &args.command {
        PolicyCommand::Check(args) => check::run(site, args),
        PolicyCommand::Advise(args) => exec::advise(site, args),
    }
}
