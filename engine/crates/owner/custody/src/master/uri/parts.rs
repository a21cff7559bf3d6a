//! Pieces of masters' URIs: attributes, percent-encoding (RFC 3986), server lists.

use std::{collections::BTreeMap, ops::RangeInclusive};

use crate::master::uri::{UriError, short};

/// Servers of one master at most.
const MAX_SERVERS: usize = 16;

/// `name=value` pairs that are taken one by one; what nobody takes is an error.
pub(super) struct Attributes(BTreeMap<String, Vec<u8>>);

impl Attributes {
    pub(super) fn parse(text: &str, separator: char) -> Result<Self, UriError> {
        let mut attributes = BTreeMap::new();
        for pair in text.split(separator).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| UriError::BadValue {
                what: "name=value",
                value: short(pair),
            })?;
            for secret in ["pin-value", "password", "secret", "secret-key"] {
                if name == secret {
                    return Err(UriError::Secret(secret));
                }
            }
            if attributes
                .insert(name.to_owned(), decode_bytes(value)?)
                .is_some()
            {
                return Err(UriError::Twice(short(name)));
            }
        }
        Ok(Self(attributes))
    }

    pub(super) fn take_bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, UriError> {
        match self.0.remove(name) {
            Some(value) if value.is_empty() => Err(UriError::BadValue {
                what: "value",
                value: short(name),
            }),
            value => Ok(value),
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Result<Option<String>, UriError> {
        self.take_bytes(name)?.map(text).transpose()
    }

    pub(super) fn needed(&mut self, name: &'static str) -> Result<String, UriError> {
        self.take(name)?.ok_or(UriError::Missing(name))
    }

    pub(super) fn seconds(
        &mut self,
        name: &'static str,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, UriError> {
        let Some(value) = self.take(name)? else {
            return Ok(default);
        };
        let seconds = value.parse().ok().filter(|seconds| range.contains(seconds));
        seconds.ok_or_else(|| UriError::BadValue {
            what: name,
            value: short(&value),
        })
    }

    pub(super) fn end(self) -> Result<(), UriError> {
        match self.0.into_keys().next() {
            Some(name) => Err(UriError::UnknownOption(short(&name))),
            None => Ok(()),
        }
    }
}

pub(super) fn decode(value: &str) -> Result<String, UriError> {
    text(decode_bytes(value)?)
}

fn text(bytes: Vec<u8>) -> Result<String, UriError> {
    String::from_utf8(bytes).map_err(|error| UriError::BadValue {
        what: "UTF-8",
        value: short(&String::from_utf8_lossy(error.as_bytes())),
    })
}

fn decode_bytes(value: &str) -> Result<Vec<u8>, UriError> {
    let bad = || UriError::BadValue {
        what: "percent-encoded text",
        value: short(value),
    };
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(bad)?;
        let mut decoded = [0];
        hex::decode_to_slice(digits, &mut decoded).map_err(|_| bad())?;
        bytes.extend(decoded);
        rest = after;
    }
    Ok(bytes)
}

/// `http[s]://a:1,b:2/path` as one base URL for each server, without a slash at the end.
pub(super) fn servers(address: &str) -> Result<Vec<String>, UriError> {
    let bad = |what| UriError::BadValue {
        what,
        value: short(address),
    };
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| address.starts_with(scheme));
    let scheme = scheme.ok_or_else(|| bad("address (http://HOST:PORT/PATH or https://…)"))?;
    let rest = address.get(scheme.len()..).unwrap_or_default();
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    if hosts.contains('@') {
        return Err(UriError::Secret("user:password@"));
    }
    let path = path.trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '~');
    if !path.chars().all(plain) {
        return Err(bad("path of a server"));
    }
    let hosts: Vec<&str> = hosts.split(',').collect();
    if hosts.len() > MAX_SERVERS || !hosts.iter().all(|host| is_host(host)) {
        return Err(bad("list of servers"));
    }
    let slash = if path.is_empty() { "" } else { "/" };
    Ok(hosts
        .iter()
        .map(|host| format!("{scheme}{host}{slash}{path}"))
        .collect())
}

/// The servers that may be asked over plain HTTP, by their names in `option`. Every other is asked
/// over TLS, or is this machine.
pub(super) fn plain_http(
    servers: &[String],
    option: Option<String>,
) -> Result<Vec<String>, UriError> {
    let named: Vec<String> = option
        .iter()
        .flat_map(|names| names.split(','))
        .map(str::to_lowercase)
        .collect();
    let hosts: Vec<String> = servers
        .iter()
        .filter_map(|server| Some(host(server.strip_prefix("http://")?)))
        .collect();
    if let Some(host) = hosts
        .iter()
        .find(|host| !is_loopback(host) && !named.contains(*host))
    {
        return Err(UriError::PlainHttp(host.clone()));
    }
    // A leave for what is not asked so would be there when somebody changes the address.
    if let Some(name) = named.iter().find(|name| !hosts.contains(*name)) {
        return Err(UriError::BadValue {
            what: "server of this URI that is asked over plain HTTP",
            value: short(name),
        });
    }
    Ok(named)
}

/// The host of `host[:port][/path]`, without brackets.
fn host(rest: &str) -> String {
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => authority.split(':').next(),
    };
    host.unwrap_or_default().to_lowercase()
}

/// By what is written. Where the name leads is looked at when it is asked.
fn is_loopback(host: &str) -> bool {
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost",
    }
}

/// `name`, `name:port`, `1.2.3.4:port`, `[::1]:port`.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => {
                ("ip", port.strip_prefix(':'))
            }
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    !name.is_empty() && name.chars().all(plain) && port.is_none_or(is_port)
}
