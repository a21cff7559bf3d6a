//! `coffer policy`

mod check;

pub(crate) use check::reference;

use crate::{
    args::{Policy, PolicyCommand},
    failure::Failure,
    site::Site,
};

pub(crate) fn run(site: &Site, args: &Policy) -> Result<(), Failure> {
    match &args.command {
        PolicyCommand::Check(args) => check::run(site, args),
    }
}
