//! Credentials, from where the AWS tools look first: the environment, then the shared files. A
//! profile that the policy names goes before the environment.
//!
//! Roles, single sign-on, `credential_process` and instance metadata are not followed: they are
//! programs and addresses that the policy does not name. Let the AWS command line write short-lived
//! credentials into the shared file (`aws configure export-credentials`); it is read anew for each
//! call.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

/// A shared file is no larger.
const MAX_FILE: u64 = 1 << 20;

/// Who asks.
pub(super) struct Credentials {
    /// The access key's id: not secret.
    pub(super) id: String,
    pub(super) secret: Zeroizing<String>,
    pub(super) token: Option<Zeroizing<String>>,
}

type Section = BTreeMap<String, Zeroizing<String>>;

/// Where credentials and region come from.
pub(super) struct Profile {
    name: String,
    /// The environment's, unless a profile is named in the policy.
    environment: Option<Credentials>,
    region: Option<String>,
    section: Section,
}

impl Profile {
    /// `named`: by the policy.
    pub(super) fn locate(named: Option<&str>) -> Result<Self, String> {
        let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let environment = match (
            named,
            given("AWS_ACCESS_KEY_ID"),
            given("AWS_SECRET_ACCESS_KEY"),
        ) {
            (None, Some(id), Some(secret)) => Some(Credentials {
                id,
                secret: Zeroizing::new(secret),
                token: given("AWS_SESSION_TOKEN").map(Zeroizing::new),
            }),
            _ => None,
        };
        let name = named
            .map(str::to_owned)
            .or_else(|| given("AWS_PROFILE"))
            .unwrap_or_else(|| "default".to_owned());
        let file = |variable: &str, usual: &str| {
            given(variable)
                .map(PathBuf::from)
                .or_else(|| Some(env::home_dir()?.join(".aws").join(usual)))
        };
        let mut section = Section::new();
        // What the credentials file says goes before what the config file says.
        for (path, heading) in [
            (file("AWS_CONFIG_FILE", "config"), config_heading(&name)),
            (
                file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                name.clone(),
            ),
        ] {
            if let Some(text) = path.as_deref().map(read).transpose()?.flatten() {
                section.extend(section_of(&text, &heading));
            }
        }
        Ok(Self {
            name,
            environment,
            region: given("AWS_REGION").or_else(|| given("AWS_DEFAULT_REGION")),
            section,
        })
    }

    /// The environment's region, else the profile's.
    pub(super) fn region(&self) -> Option<String> {
        self.region
            .clone()
            .or_else(|| self.section.get("region").map(|region| region.to_string()))
    }

    pub(super) fn credentials(self: &Profile) -> Result<Credentials, String> {
        if let Some(found) = &self.environment {
            return Ok(Credentials {
                id: found.id.clone(),
                secret: found.secret.clone(),
                token: found.token.clone(),
            });
        }
        match (
            self.section.get("aws_access_key_id"),
            self.section.get("aws_secret_access_key"),
        ) {
            (Some(id), Some(secret)) => Ok(Credentials {
                id: id.to_string(),
                secret: secret.clone(),
                token: self.section.get("aws_session_token").cloned(),
            }),
            _ => Err(format!(
                "no credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY nor keys of \
                    the profile {:?}",
                self.name
            )),
        }
    }
}

/// In the config file all profiles but the default one have a word before their names.
fn config_heading(name: &str) -> String {
    if name == "default" {
        return name.to_owned();
    }
    format!("profile {name}")
}

/// None if there is no such file.
fn read(path: &Path) -> Result<Option<Zeroizing<String>>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(found) if found.len() > MAX_FILE => {
            return Err(format!("{} is too large", path.display()));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path)
        .map(|text| Some(Zeroizing::new(text)))
        .map_err(failed)
}

/// The settings of a section. Comments begin with `#` or `;`; lines that are indented belong to the
/// setting before them and hold none of ours.
fn section_of(text: &str, heading: &str) -> Section {
    let mut section = Section::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(name) = line
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
        {
            inside = name.split_whitespace().eq(heading.split_whitespace());
        } else if let (true, false, Some((name, value))) = (
            inside,
            line.starts_with([' ', '\t', '#', ';']),
            line.split_once('='),
        ) {
            section.insert(
                name.trim().to_ascii_lowercase(),
                Zeroizing::new(value.trim().to_owned()),
            );
        }
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_the_shared_files() {
        let text = "[default]\naws_access_key_id = A\n# comment = \
            no\n[profile  work]\nregion=eu-west-1\ns3 =\n  region = no\n\
                    [work]\nAWS_ACCESS_KEY_ID=B\naws_secret_access_key = a=b/c+ \n";
        let get = |heading: &str, name: &str| {
            section_of(text, heading)
                .get(name)
                .map(|value| value.to_string())
        };
        assert_eq!(get("default", "aws_access_key_id").as_deref(), Some("A"));
        assert_eq!(get("work", "aws_access_key_id").as_deref(), Some("B"));
        assert_eq!(
            get("work", "aws_secret_access_key").as_deref(),
            Some("a=b/c+")
        );
        assert_eq!(
            get(&config_heading("work"), "region").as_deref(),
            Some("eu-west-1")
        );
        assert_eq!(get("default", "# comment"), None);
        assert_eq!(get("other", "region"), None);
    }
}
