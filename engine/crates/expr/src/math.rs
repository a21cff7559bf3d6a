//! Functions of this family (being filled in: what is not in the table is refused by name).

use crate::function::Entry;

pub(crate) const FUNCTIONS: &[Entry] = &[];
