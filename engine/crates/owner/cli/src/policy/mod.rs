//! `coffer policy`

mod check;
mod compare;
mod sign;

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
        PolicyCommand::Sign(args) => sign::run(site, args),
        PolicyCommand::Show => sign::show(site),
        PolicyCommand::Compare(args) => compare::run(args),
        PolicyCommand::Advise(args) => exec::advise(site, args),
    }
}
