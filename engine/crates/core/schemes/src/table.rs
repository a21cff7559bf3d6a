//! What each protection shows to whoever holds a table's files, what it allows without a key, and
//! what it costs: one row for each. Whoever plans, explains, checks a policy or advises on one
//! reads this table; nothing else says any of it.
//!
//! A new scheme has a module of its own, and its row here.

use std::{fmt, sync::Arc};

use crate::{
    Ashe, ColumnSpec, Det, Ope, Ore, Plain, Protection, Scheme, SchemeError, SchemeKey, Standard,
    Tee,
};

/// Something that a column shows to whoever holds the files, without any key.
///
/// In the order in which a list of them is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leakage {
    /// Every value.
    Values,
    /// Every value, in the names of folders.
    ValuesInPaths,
    /// Which values are equal, in linked columns too.
    Equality,
    /// Which of two values is greater.
    Order,
    /// The same of the first bytes of texts, and which of them are equal.
    PrefixOrder,
    /// About the upper half of the bits of each value.
    UpperBits,
    /// The first bit in which any two values differ.
    FirstDifference,
    /// Which rows each sum took. Not in the files: where sums are taken.
    SummedRows,
    /// How long each value is.
    Lengths,
    /// Which values are NULL.
    Nulls,
    /// Sizes, and what is read. Every column shows these; named where nothing else shows.
    Sizes,
}

impl Leakage {
    /// All of them.
    pub const ALL: [Leakage; 11] = [
        Leakage::Values,
        Leakage::ValuesInPaths,
        Leakage::Equality,
        Leakage::Order,
        Leakage::PrefixOrder,
        Leakage::UpperBits,
        Leakage::FirstDifference,
        Leakage::SummedRows,
        Leakage::Lengths,
        Leakage::Nulls,
        Leakage::Sizes,
    ];

    /// For programs.
    pub fn code(self) -> &'static str {
        match self {
            Leakage::Values => "values",
            Leakage::ValuesInPaths => "values_in_paths",
            Leakage::Equality => "equality",
            Leakage::Order => "order",
            Leakage::PrefixOrder => "prefix_order",
            Leakage::UpperBits => "upper_bits",
            Leakage::FirstDifference => "first_difference",
            Leakage::SummedRows => "summed_rows",
            Leakage::Lengths => "lengths",
            Leakage::Nulls => "nulls",
            Leakage::Sizes => "sizes",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Leakage::Values => "every value",
            Leakage::ValuesInPaths => "every value, in the files' paths",
            Leakage::Equality => "which values are equal",
            Leakage::Order => "their order",
            Leakage::PrefixOrder => "the order of their first bytes, and which are equal there",
            Leakage::UpperBits => "about the upper half of each one's bits",
            Leakage::FirstDifference => "the first bit in which any two differ",
            Leakage::SummedRows => "which rows each sum took",
            Leakage::Lengths => "lengths",
            Leakage::Nulls => "which are NULL",
            Leakage::Sizes => "nothing but sizes, and which files, row groups and pages are read",
        }
    }

    /// For people, where it is known how many bytes of a text are in its order.
    pub fn words_of_prefix(self, bytes: Option<u32>) -> String {
        match (self, bytes) {
            (Leakage::PrefixOrder, Some(bytes)) => {
                self.words()
                    .replacen("first bytes", &format!("first {bytes} bytes"), 1)
            }
            _ => self.words().to_owned(),
        }
    }

    /// What is shown by all of these together, each once: where values show, nothing beside them is
    /// worth a word.
    pub fn union(shown: impl IntoIterator<Item = Leakage>) -> Vec<Leakage> {
        let mut all: Vec<Leakage> = shown.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        match all.first().copied() {
            Some(values @ (Leakage::Values | Leakage::ValuesInPaths)) => vec![values],
            None | Some(Leakage::Sizes) => vec![Leakage::Sizes],
            Some(_) => {
                all.retain(|shown| *shown != Leakage::Sizes);
                all
            }
        }
    }
}

/// Work on what is stored that takes no key. What a protection does not allow takes an enclave that
/// may have the column's key, or the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Everything: the value itself is there.
    Everything,
    /// Equal bytes are equal values.
    Equality,
    /// Bytes (or whole numbers) lie in the order of the values, so whatever compares may work on
    /// them.
    Order,
    /// The scheme's own comparator tells a stored value from a literal's ciphertext.
    Comparison,
    /// Bytes lie in the order of the values' first bytes: what is found is too much, and looked at
    /// again where it is opened.
    PrefixOrder,
    /// Stored values add up.
    Sum,
    /// Rows are counted, NULLs are told, and the value is carried along.
    Carry,
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 7] = [
        Capability::Everything,
        Capability::Equality,
        Capability::Order,
        Capability::Comparison,
        Capability::PrefixOrder,
        Capability::Sum,
        Capability::Carry,
    ];

    /// For programs.
    pub fn code(self) -> &'static str {
        match self {
            Capability::Everything => "everything",
            Capability::Equality => "equality",
            Capability::Order => "order",
            Capability::Comparison => "comparison",
            Capability::PrefixOrder => "prefix_order",
            Capability::Sum => "sum",
            Capability::Carry => "carry",
        }
    }

    /// What of SQL that is.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Capability::Everything => &["everything"],
            Capability::Equality => &["=, IN", "joins", "GROUP BY", "DISTINCT"],
            Capability::Order => &["ranges", "MIN, MAX", "ORDER BY", "pruning of row groups"],
            Capability::Comparison => &["=, IN", "ranges"],
            Capability::PrefixOrder => {
                &["ranges on the first bytes, repeated where the value is opened"]
            }
            Capability::Sum => &["SUM, AVG"],
            Capability::Carry => &["COUNT", "IS NULL", "being carried along"],
        }
    }
}

/// Who can have the values of what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opener {
    /// Whoever holds the files.
    Anyone,
    /// Enclaves that the policy lets have the column's key, and the client.
    Enclaves,
    /// The client: the key never leaves it.
    Client,
    /// No one: part of the value is not stored.
    Nobody,
}

impl Opener {
    /// For programs.
    pub fn code(self) -> &'static str {
        match self {
            Opener::Anyone => "anyone",
            Opener::Enclaves => "enclaves",
            Opener::Client => "client",
            Opener::Nobody => "nobody",
        }
    }
}

/// What a policy may say of a column for a protection's sake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// The least and the greatest value.
    Domain,
    /// The group of columns with comparable ciphertexts: their keys are one.
    Link,
    /// How many bytes of a text are in its order.
    Prefix,
    /// How many rows the table has at most.
    Rows,
}

impl Setting {
    /// As in a policy.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Domain => "domain",
            Setting::Link => "link",
            Setting::Prefix => "prefix",
            Setting::Rows => "rows",
        }
    }

    /// The protections that use it.
    pub fn users(self) -> impl Iterator<Item = Protection> {
        Protection::ALL
            .into_iter()
            .filter(move |protection| protection.uses(self))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a protection does to values of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Treatment {
    /// What shows, in order.
    pub shows: &'static [Leakage],
    /// What can be done unopened.
    pub allows: &'static [Capability],
    /// Who can open it.
    pub opened_by: Opener,
}

/// What work costs. None of it decides what is right, only what is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds to encrypt a value (`bench/run schemes`: BIGINT and INT, one core).
    pub encrypt: u32,
    /// To open one.
    pub open: u32,
    /// To encrypt one that was met before: a scheme may keep a dictionary.
    pub repeated: u32,
    /// A stored value has so many bytes for each of the value's, …
    pub times: u32,
    /// … and so many more, before Parquet packs it.
    pub plus: u32,
    /// Instead of both, if the values that may occur are few enough (2^32).
    pub narrow: Option<u32>,
}

/// All that is known of one protection.
#[derive(Debug)]
pub struct Row {
    /// Whose row it is.
    pub protection: Protection,
    /// As written in a policy.
    pub name: &'static str,
    /// Of numbers, dates, times and truth values.
    pub numbers: Treatment,
    /// Of strings and bytes; none: it takes no such column.
    pub texts: Option<Treatment>,
    /// What a policy may say for it.
    pub settings: &'static [Setting],
    /// Whether a value says nothing without its file and the number of its row there.
    pub needs_position: bool,
    /// What it costs.
    pub cost: Cost,
    /// What lies in the files, for the reference.
    pub stored: &'static str,
    /// Where the scheme is from, for the reference.
    pub source: &'static str,
}

impl Row {
    /// What it does to texts, or to all other values.
    pub fn treatment(&self, texts: bool) -> Treatment {
        match self.texts {
            Some(treatment) if texts => treatment,
            _ => self.numbers,
        }
    }
}

const TEE: Row = Row {
    protection: Protection::Tee,
    name: "tee",
    numbers: Treatment {
        shows: &[Leakage::Sizes],
        allows: &[],
        opened_by: Opener::Enclaves,
    },
    texts: Some(Treatment {
        shows: &[Leakage::Sizes],
        allows: &[],
        opened_by: Opener::Enclaves,
    }),
    settings: &[],
    needs_position: false,
    // AES-GCM over whole pages: gigabytes in a second.
    cost: Cost {
        encrypt: 4,
        open: 4,
        repeated: 4,
        times: 1,
        plus: 0,
        narrow: None,
    },
    stored: "the column, under Parquet's encryption",
    source: "PME",
};

const STD: Row = Row {
    protection: Protection::Std,
    name: "std",
    numbers: Treatment {
        shows: &[Leakage::Nulls],
        allows: &[Capability::Carry],
        opened_by: Opener::Client,
    },
    texts: Some(Treatment {
        shows: &[Leakage::Lengths, Leakage::Nulls],
        allows: &[Capability::Carry],
        opened_by: Opener::Client,
    }),
    settings: &[],
    needs_position: true,
    cost: Cost {
        encrypt: 104,
        open: 92,
        repeated: 104,
        times: 1,
        plus: 16,
        narrow: None,
    },
    stored: "Binary: ciphertext ‖ tag",
    source: "AES-256-GCM",
};

const ASHE: Row = Row {
    protection: Protection::Ashe,
    name: "ashe",
    numbers: Treatment {
        shows: &[Leakage::SummedRows, Leakage::Nulls],
        allows: &[Capability::Sum, Capability::Carry],
        opened_by: Opener::Client,
    },
    texts: None,
    settings: &[Setting::Domain, Setting::Rows],
    needs_position: true,
    cost: Cost {
        encrypt: 4,
        open: 24,
        repeated: 4,
        times: 0,
        plus: 8,
        narrow: None,
    },
    stored: "Int64",
    source: "Papadimitriou et al., OSDI 2016",
};

const DET: Row = Row {
    protection: Protection::Det,
    name: "det",
    numbers: Treatment {
        shows: &[Leakage::Equality, Leakage::Nulls],
        allows: &[Capability::Equality, Capability::Carry],
        opened_by: Opener::Client,
    },
    texts: Some(Treatment {
        shows: &[Leakage::Equality, Leakage::Lengths, Leakage::Nulls],
        allows: &[Capability::Equality, Capability::Carry],
        opened_by: Opener::Client,
    }),
    settings: &[Setting::Link],
    needs_position: false,
    cost: Cost {
        encrypt: 25,
        open: 37,
        repeated: 25,
        times: 1,
        plus: 16,
        narrow: None,
    },
    stored: "Binary: IV ‖ ciphertext",
    source: "RFC 5297",
};

const ORE: Row = Row {
    protection: Protection::Ore,
    name: "ore",
    numbers: Treatment {
        shows: &[
            Leakage::Equality,
            Leakage::Order,
            Leakage::FirstDifference,
            Leakage::Nulls,
        ],
        allows: &[Capability::Comparison, Capability::Carry],
        opened_by: Opener::Client,
    },
    texts: Some(Treatment {
        shows: &[
            Leakage::PrefixOrder,
            Leakage::FirstDifference,
            Leakage::Nulls,
        ],
        allows: &[Capability::Carry],
        opened_by: Opener::Nobody,
    }),
    settings: &[Setting::Domain, Setting::Link, Setting::Prefix],
    needs_position: false,
    cost: Cost {
        encrypt: 179,
        open: 603,
        repeated: 179,
        times: 2,
        plus: 0,
        narrow: None,
    },
    stored: "Binary, 2 bits for each bit",
    source: "Chenette et al., FSE 2016",
};

const OPE: Row = Row {
    protection: Protection::Ope,
    name: "ope",
    numbers: Treatment {
        shows: &[
            Leakage::Equality,
            Leakage::Order,
            Leakage::UpperBits,
            Leakage::Nulls,
        ],
        allows: &[Capability::Equality, Capability::Order, Capability::Carry],
        opened_by: Opener::Client,
    },
    texts: Some(Treatment {
        shows: &[Leakage::PrefixOrder, Leakage::UpperBits, Leakage::Nulls],
        allows: &[Capability::PrefixOrder, Capability::Carry],
        opened_by: Opener::Nobody,
    }),
    settings: &[Setting::Domain, Setting::Link, Setting::Prefix],
    needs_position: false,
    cost: Cost {
        encrypt: 236,
        open: 227,
        repeated: 12,
        times: 2,
        plus: 0,
        narrow: Some(8),
    },
    stored: "Int64 or Binary",
    source: "Boldyreva et al., EUROCRYPT 2009",
};

const PLAIN: Row = Row {
    protection: Protection::Plain,
    name: "plain",
    numbers: Treatment {
        shows: &[Leakage::Values],
        allows: &[Capability::Everything],
        opened_by: Opener::Anyone,
    },
    texts: Some(Treatment {
        shows: &[Leakage::Values],
        allows: &[Capability::Everything],
        opened_by: Opener::Anyone,
    }),
    settings: &[],
    needs_position: false,
    cost: Cost {
        encrypt: 0,
        open: 0,
        repeated: 0,
        times: 1,
        plus: 0,
        narrow: None,
    },
    stored: "the column",
    source: "",
};

/// The table, from what shows least.
pub const TABLE: [&Row; 7] = [&TEE, &STD, &ASHE, &DET, &ORE, &OPE, &PLAIN];

impl Protection {
    /// All that is known of it.
    pub fn row(self) -> &'static Row {
        match self {
            Protection::Plain => &PLAIN,
            Protection::Std => &STD,
            Protection::Det => &DET,
            Protection::Ope => &OPE,
            Protection::Ore => &ORE,
            Protection::Ashe => &ASHE,
            Protection::Tee => &TEE,
        }
    }

    /// As written in the policy.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it does to texts, or to all other values.
    pub fn treatment(self, texts: bool) -> Treatment {
        self.row().treatment(texts)
    }

    /// Whether it uses what a policy may say of a column.
    pub fn uses(self, setting: Setting) -> bool {
        self.row().settings.contains(&setting)
    }

    /// Whether sums over what is stored can be taken unopened.
    pub fn is_summable(self) -> bool {
        self.row().numbers.allows.contains(&Capability::Sum)
    }

    /// Whether someone without keys can work on what is stored.
    pub fn is_host_readable(self) -> bool {
        self.row().numbers.opened_by != Opener::Enclaves
    }

    /// Whether what is stored is a ciphertext of a scheme: not the column itself, under Parquet's
    /// encryption or none.
    pub fn is_scheme(self) -> bool {
        !matches!(
            self.row().numbers.opened_by,
            Opener::Anyone | Opener::Enclaves
        )
    }

    /// Whether a partition column may have it: engines must be able to tell its values apart. Where
    /// anyone can, they are in the files' paths.
    pub fn is_for_partitions(self) -> bool {
        !self.is_scheme()
    }

    /// The scheme of a column, with its key.
    pub fn scheme(
        self,
        key: &SchemeKey,
        column: &ColumnSpec,
    ) -> Result<Arc<dyn Scheme>, SchemeError> {
        Ok(match self {
            Protection::Plain => Arc::new(Plain::new(column)),
            Protection::Tee => Arc::new(Tee::new(column)),
            Protection::Std => Arc::new(Standard::new(key, column)?),
            Protection::Det => Arc::new(Det::new(key, column)?),
            Protection::Ope => Arc::new(Ope::new(key, column)?),
            Protection::Ore => Arc::new(Ore::new(key, column)?),
            Protection::Ashe => Arc::new(Ashe::new(key, column)?),
        })
    }
}

#[cfg(test)]
mod tests;
