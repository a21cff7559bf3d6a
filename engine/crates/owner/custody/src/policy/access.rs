//! Who may read and write what: `[roles]` and `[users]`.
//!
//! A role names tables, and of each the columns whose keys it holds; a user has roles, and what
//! they allow together. The owner, who has the keyring's passphrase, has everything. A word that is
//! missing allows nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, de};

use crate::policy::PolicyError;

/// All there are, or those named.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach {
    All,
    Named(BTreeSet<String>),
}

impl Default for Reach {
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

impl Reach {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }
}

/// By table, which columns; or all columns of all tables.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tables {
    All,
    Named(BTreeMap<String, Reach>),
}

impl Default for Tables {
    fn default() -> Self {
        Self::Named(BTreeMap::new())
    }
}

/// What a role allows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Role {
    tables: Tables,
    write: Reach,
    write_roots: Vec<PathBuf>,
}

impl Role {
    fn reads(&self, table: &str, column: &str) -> bool {
        match &self.tables {
            Tables::All => true,
            Tables::Named(tables) => tables.get(table).is_some_and(|columns| columns.has(column)),
        }
    }
}

/// The account of the operating system that a user is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Account {
    Name(String),
    Uid(u32),
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name:?}"),
            Self::Uid(uid) => write!(f, "{uid}"),
        }
    }
}

/// A user as the policy has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct User {
    roles: Vec<String>,
    account: Option<Account>,
    certificate: Option<Certificate>,
}

/// The name in the certificate that a user shows to a key service over the network: a subject
/// alternative name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Certificate(String);

/// Roles and users, checked against each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Access {
    roles: BTreeMap<String, Arc<Role>>,
    users: BTreeMap<String, User>,
}

impl Access {
    /// Relative paths count from `folder`.
    pub(super) fn new(
        mut roles: BTreeMap<String, Role>,
        users: BTreeMap<String, User>,
        folder: &Path,
    ) -> Result<Self, PolicyError> {
        for (name, role) in &mut roles {
            for root in &mut role.write_roots {
                if root.as_os_str().is_empty() || crate::policy::zone::climbs(root) {
                    return Err(PolicyError::WriteRoot {
                        role: name.clone(),
                        path: root.clone(),
                    });
                }
                *root = folder.join(&*root);
            }
        }
        for name in roles.keys().chain(users.keys()) {
            crate::policy::file::check_name(name)?;
        }
        let mut accounts: BTreeMap<&Account, &str> = BTreeMap::new();
        let mut certificates: BTreeMap<&Certificate, &str> = BTreeMap::new();
        for (name, user) in &users {
            if let Some(role) = user.roles.iter().find(|role| !roles.contains_key(*role)) {
                return Err(PolicyError::UnknownRole {
                    user: name.clone(),
                    role: role.clone(),
                    known: roles.keys().cloned().collect(),
                });
            }
            if let Some(account) = &user.account
                && let Some(first) = accounts.insert(account, name)
            {
                return Err(PolicyError::AccountTwice {
                    first: first.to_owned(),
                    second: name.clone(),
                    account: account.to_string(),
                });
            }
            if let Some(certificate) = &user.certificate
                && let Some(first) = certificates.insert(certificate, name)
            {
                return Err(PolicyError::CertificateTwice {
                    first: first.to_owned(),
                    second: name.clone(),
                });
            }
        }
        let roles = roles.into_iter().map(|(name, role)| (name, Arc::new(role)));
        Ok(Self {
            roles: roles.collect(),
            users,
        })
    }

    pub(super) fn users(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(String::as_str)
    }

    pub(super) fn rights(&self, user: &str) -> Result<Rights, PolicyError> {
        let found = self
            .users
            .get(user)
            .ok_or_else(|| PolicyError::UnknownUser {
                name: user.to_owned(),
                known: self.users.keys().cloned().collect(),
            })?;
        let roles = found
            .roles
            .iter()
            .filter_map(|role| self.roles.get(role).cloned());
        Ok(Rights(Held::Roles(roles.collect())))
    }

    pub(super) fn roles(&self) -> impl Iterator<Item = (&str, Rights)> {
        let alone = |role| Rights(Held::Roles(vec![Arc::clone(role)]));
        self.roles
            .iter()
            .map(move |(name, role)| (name.as_str(), alone(role)))
    }

    /// The user of a certificate with these names.
    pub(super) fn user_of_certificate(
        &self,
        names: &[String],
    ) -> Result<Option<&str>, PolicyError> {
        let is = |user: &User| {
            let certificate = user.certificate.as_ref();
            certificate.is_some_and(|Certificate(wanted)| names.contains(wanted))
        };
        self.only(is, |first, second| PolicyError::CertificateTwice {
            first,
            second,
        })
    }

    /// Names and numbers of accounts meet only here, where the system has said which belong
    /// together.
    pub(super) fn user_of(
        &self,
        uid: u32,
        account: Option<&str>,
    ) -> Result<Option<&str>, PolicyError> {
        let is = |user: &User| match &user.account {
            Some(Account::Uid(wanted)) => *wanted == uid,
            Some(Account::Name(wanted)) => Some(wanted.as_str()) == account,
            None => false,
        };
        self.only(is, |first, second| PolicyError::AccountTwice {
            first,
            second,
            account: uid.to_string(),
        })
    }

    /// The one user who is it; an error where two are.
    fn only(
        &self,
        is: impl Fn(&User) -> bool,
        twice: impl FnOnce(String, String) -> PolicyError,
    ) -> Result<Option<&str>, PolicyError> {
        let users = self.users.iter().filter(|(_, user)| is(user));
        let mut found = users.map(|(name, _)| name);
        match (found.next(), found.next()) {
            (Some(first), Some(second)) => Err(twice(first.clone(), second.clone())),
            (first, _) => Ok(first.map(String::as_str)),
        }
    }
}

/// What somebody may read and write.
#[derive(Debug, Clone)]
pub struct Rights(Held);

#[derive(Debug, Clone)]
enum Held {
    Owner,
    Roles(Vec<Arc<Role>>),
}

impl Rights {
    /// The owner's: everything.
    pub fn owner() -> Self {
        Self(Held::Owner)
    }

    /// Whether the key of a table's column may be used.
    pub fn reads(&self, table: &str, column: &str) -> bool {
        match &self.0 {
            Held::Owner => true,
            Held::Roles(roles) => roles.iter().any(|role| role.reads(table, column)),
        }
    }

    /// Whether any of a table's columns may be read: who may read none does not count its rows
    /// either.
    pub fn reads_some<'a>(&self, table: &str, columns: impl IntoIterator<Item = &'a str>) -> bool {
        columns.into_iter().any(|column| self.reads(table, column))
    }

    /// Whether they are the owner's.
    pub fn is_owner(&self) -> bool {
        matches!(self.0, Held::Owner)
    }

    /// Folders below which tables may be made; the owner makes them anywhere.
    pub fn write_roots(&self) -> impl Iterator<Item = &Path> {
        let roles = match &self.0 {
            Held::Owner => &[][..],
            Held::Roles(roles) => roles,
        };
        roles
            .iter()
            .flat_map(|role| &role.write_roots)
            .map(PathBuf::as_path)
    }

    /// Whether versions of a table may be written. The keys of its columns are for
    /// [`Rights::reads`] to say.
    pub fn writes(&self, table: &str) -> bool {
        match &self.0 {
            Held::Owner => true,
            Held::Roles(roles) => roles.iter().any(|role| role.write.has(table)),
        }
    }
}

impl<'de> Deserialize<'de> for Reach {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Reach;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names, or \"*\" for all")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Reach, E> {
                match text {
                    "*" => Ok(Reach::All),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut names: A) -> Result<Reach, A::Error> {
                let mut all = BTreeSet::new();
                while let Some(name) = names.next_element::<String>()? {
                    if name == "*" {
                        return Err(de::Error::custom("\"*\" stands alone, not in a list"));
                    }
                    all.insert(name);
                }
                Ok(Reach::Named(all))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Tables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Tables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of lists of columns, or \"*\" for all columns of all tables")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Tables, E> {
                match text {
                    "*" => Ok(Tables::All),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Tables, A::Error> {
                BTreeMap::deserialize(de::value::MapAccessDeserializer::new(map)).map(Tables::Named)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Certificate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.trim() == name && !name.is_empty() {
            true => Ok(Self(name)),
            false => Err(de::Error::invalid_value(
                de::Unexpected::Str(&name),
                &"a name in the user's certificate, as ann@example.org",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Account {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Account;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an account's name, or its number")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Account, E> {
                match name {
                    "" => Err(E::invalid_value(de::Unexpected::Str(name), &self)),
                    name => Ok(Account::Name(name.to_owned())),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Account, E> {
                u32::try_from(number)
                    .map(Account::Uid)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Draft;

    const POLICY: &str = r#"
        [roles.analyst]
        tables.employees = ["age", "category"]
        tables.categories = "*"
        [roles.payroll]
        tables = { employees = ["salary"], report = "*" }
        write = ["report"]
        [roles.everything]
        tables = "*"
        write = "*"
        [roles.nothing]
        [users.ann]
        roles = ["analyst"]
        account = "ann"
        [users.bob]
        roles = ["analyst", "payroll"]
        account = 1002
        [users.admin]
        roles = ["everything"]
        [users.guest]
    "#;

    fn policy(text: &str) -> Result<Draft, PolicyError> {
        Draft::parse(text, Path::new("policy.toml"))
    }

    #[test]
    fn a_user_has_what_the_roles_allow_together_and_no_more() {
        let policy = policy(POLICY).unwrap();
        let ann = policy.rights("ann").unwrap();
        assert!(ann.reads("employees", "age") && ann.reads("categories", "anything"));
        assert!(
            !ann.reads("employees", "salary")
                && !ann.reads("Employees", "age")
                && !ann.reads("employees", "AGE")
        );
        assert!(!ann.reads("other", "age") && !ann.writes("employees") && !ann.writes("report"));
        assert!(
            ann.reads_some("employees", ["salary", "age"])
                && !ann.reads_some("employees", ["salary"])
        );
        let bob = policy.rights("bob").unwrap();
        assert!(
            bob.reads("employees", "salary")
                && bob.reads("employees", "age")
                && bob.reads("report", "x")
        );
        assert!(bob.writes("report") && !bob.writes("employees"));
        let admin = policy.rights("admin").unwrap();
        assert!(admin.reads("t", "c") && admin.writes("t"));
        let rights = policy.rights("guest").unwrap();
        assert!(!rights.reads("employees", "age") && !rights.writes("employees"));
        assert!(Rights::owner().reads("t", "c") && Rights::owner().writes("t"));
    }

    #[test]
    fn accounts_name_users_by_name_or_number() {
        let policy = policy(POLICY).unwrap();
        let user_of = |uid, account| policy.user_of(uid, account).unwrap();
        assert_eq!(user_of(1001, Some("ann")), Some("ann"));
        assert_eq!(user_of(1002, Some("robert")), Some("bob"));
        assert_eq!(user_of(1002, None), Some("bob"));
        // A user without an account is no account's, whatever its name; the administrator of the
        // machine is nobody special.
        assert_eq!(user_of(1003, Some("admin")), None);
        assert_eq!(user_of(0, Some("root")), None);
        assert_eq!(policy.users().count(), 4);
    }

    #[test]
    fn a_certificate_is_one_user_or_none() {
        let policy = policy(
            "[users.ann]\ncertificate = \"ann@example.org\"\n\
             [users.bob]\ncertificate = \"spiffe://example.org/bob\"\n[users.eve]\n",
        )
        .unwrap();
        let user_of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            policy
                .user_of_certificate(&names)
                .map(|user| user.map(str::to_owned))
        };
        assert_eq!(
            user_of(&["x", "ann@example.org"]).unwrap().as_deref(),
            Some("ann")
        );
        let bob = user_of(&["spiffe://example.org/bob"]).unwrap();
        assert_eq!(bob.as_deref(), Some("bob"));
        for strangers in [
            &[][..],
            &["eve"],
            &["ANN@example.org"],
            &["ann@example.org "],
            &[""],
        ] {
            assert_eq!(user_of(strangers).unwrap(), None, "{strangers:?}");
        }
        let both = user_of(&["ann@example.org", "spiffe://example.org/bob"]).unwrap_err();
        assert_eq!(both.code(), "certificate_twice");
    }

    #[test]
    fn an_account_that_is_one_user_by_name_and_another_by_number_is_nobodys() {
        let policy = policy(POLICY).unwrap();
        let error = policy.user_of(1002, Some("ann")).unwrap_err();
        assert_eq!(error.code(), "account_twice");
        assert_eq!(
            error.to_string(),
            "users \"ann\" and \"bob\" have the same account, 1002"
        );
    }

    #[test]
    fn tables_are_made_below_the_roots_of_roles_and_where_the_owner_says() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let at = |path: &str| real.join(path);
        for made in ["ann/inner", "other"] {
            std::fs::create_dir_all(at(made)).unwrap();
        }
        std::os::unix::fs::symlink(at("ann"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("other"), at("ann/out")).unwrap();
        std::os::unix::fs::symlink(at("other/new"), at("ann/soon")).unwrap();
        let text = "[roles.r]\nwrite_roots = [\"ann\", \"link\"]\nwrite = \"*\"\n\
            [roles.none]\nwrite = \"*\"\n[users.ann]\nroles = [\"r\"]\n\
            [users.bob]\nroles = [\"none\"]\n[tables.t]\npath = \"other/t\"\n";
        let policy = Draft::parse(text, &at("policy.toml")).unwrap();
        let ann = policy.rights("ann").unwrap();
        let may = |rights: &Rights, path: &str| policy.may_make(rights, "t", &at(path)).unwrap();
        for path in ["ann/t", "ann/inner/a/b", "link/t", "other/t"] {
            assert!(may(&ann, path), "{path}");
        }
        for path in [
            "other/u",
            "annex/t",
            "ann/out/t",
            "ann/soon",
            "ann/../other/u",
            "ann/inner/../../other/u",
            "link/out/t",
        ] {
            assert!(!may(&ann, path), "{path}");
        }
        assert!(
            !policy.may_make(&ann, "t", Path::new("ann/t")).unwrap(),
            "relative to what?"
        );
        assert!(
            !policy.may_make(&ann, "u", &at("other/t")).unwrap(),
            "another table's place"
        );
        // A role without roots makes a table only where the owner wrote that it lies.
        let bob = policy.rights("bob").unwrap();
        assert!(may(&bob, "other/t") && !may(&bob, "ann/t"));
        assert!(may(&Rights::owner(), "anywhere"));
    }

    #[test]
    fn a_role_alone() {
        let policy = policy(POLICY).unwrap();
        let roles: Vec<_> = policy.roles().collect();
        let names: Vec<&str> = roles.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["analyst", "everything", "nothing", "payroll"]);
        assert!(roles[0].1.reads("employees", "age") && !roles[0].1.reads("employees", "salary"));
        assert!(roles[1].1.writes("t") && !roles[2].1.reads("employees", "age"));
    }

    #[test]
    fn what_cannot_be_meant_is_an_error() {
        let cases = [
            ("[users.a]\nroles = [\"r\"]", "unknown_role"),
            (
                "[users.a]\naccount = 7\n[users.b]\naccount = 7",
                "account_twice",
            ),
            (
                "[users.a]\ncertificate = \"c\"\n[users.b]\ncertificate = \"c\"",
                "certificate_twice",
            ),
            ("[users.a]\ncertificate = \"\"", "policy_syntax"),
            ("[users.a]\ncertificate = \" a\"", "policy_syntax"),
            ("[users.a]\naccount = \"\"", "policy_syntax"),
            ("[users.a]\naccount = -1", "policy_syntax"),
            ("[users.\"a b\"]", "bad_table_name"),
            ("[roles.r]\ntables = \"t\"", "policy_syntax"),
            ("[roles.r]\ntables.t = \"c\"", "policy_syntax"),
            ("[roles.r]\ntables.t = [\"*\"]", "policy_syntax"),
            ("[roles.r]\nwrite = true", "policy_syntax"),
            ("[roles.r]\nwrite_roots = \"/a\"", "policy_syntax"),
            ("[roles.r]\nwrite_roots = [\"/a/../b\"]", "write_root"),
            ("[roles.r]\nwrite_roots = [\"\"]", "write_root"),
            ("[roles.r]\nwrites = \"*\"", "policy_syntax"),
            ("[roles.r]\ntables.t.columns = [\"c\"]", "policy_syntax"),
        ];
        for (text, code) in cases {
            let error = policy(text).expect_err(text);
            assert_eq!(error.code(), code, "{text}: {error}");
            assert!(error.hint().is_some(), "{text}");
        }
        let error = policy(POLICY).unwrap().rights("anne").unwrap_err();
        assert_eq!(
            (error.code(), error.hint().unwrap().as_str()),
            ("unknown_user", "did you mean \"ann\"?")
        );
    }
}
