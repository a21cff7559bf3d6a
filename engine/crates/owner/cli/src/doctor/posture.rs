//! A configuration as the checks see it.

use std::collections::BTreeMap;

use coffer_custody::Draft;

/// Settings by key, and what else is known. Keys and values are trimmed; a later setting of a key
/// wins.
pub(crate) struct Posture {
    settings: BTreeMap<String, String>,
    /// The owner's policy, if it is at hand.
    pub(crate) policy: Option<Draft>,
    /// What a running application's web UI told.
    pub(crate) running: Option<Running>,
}

/// An application whose UI was asked.
pub(crate) struct Running {
    /// Its queries that the UI still shows.
    pub(crate) queries: usize,
    /// Those of them that read plain files.
    pub(crate) plain: usize,
}

/// Where tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// In the driver's own process.
    Local,
    /// Executors under Spark's own master.
    Standalone,
    /// Executors under YARN or Kubernetes, which have local disks and secrets of their own making.
    Managed,
    /// Not known from the settings: the checks assume executors.
    Unknown,
}

impl Posture {
    pub(crate) fn new(settings: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            settings: settings.into_iter().collect(),
            policy: None,
            running: None,
        }
    }

    /// A setting's text, if it is there and not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.settings
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A switch; what is neither true nor false is read as the default, as if it were not there.
    pub(crate) fn on(&self, key: &str, default: bool) -> bool {
        match self.get(key) {
            Some(value) if value.eq_ignore_ascii_case("true") => true,
            Some(value) if value.eq_ignore_ascii_case("false") => false,
            _ => default,
        }
    }

    /// Whether a list of names, set off by commas, has this one.
    pub(crate) fn lists(&self, key: &str, name: &str) -> bool {
        self.get(key)
            .is_some_and(|list| list.split(',').any(|item| item.trim() == name))
    }

    /// All settings whose key begins so, in order of their keys.
    pub(crate) fn beginning<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all().filter(move |(key, _)| key.starts_with(prefix))
    }

    /// All settings, in order of their keys.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) fn site(&self) -> Site {
        match self.get("spark.master") {
            Some(master) if master == "local" || master.starts_with("local[") => Site::Local,
            Some(master) if master.starts_with("spark://") => Site::Standalone,
            Some(master) if master.starts_with("yarn") || master.starts_with("k8s") => {
                Site::Managed
            }
            _ => Site::Unknown,
        }
    }

    /// Whether there are, or may be, executors on other machines.
    pub(crate) fn has_executors(&self) -> bool {
        self.site() != Site::Local
    }
}
