//! AWS Signature Version 4, for what the KMS takes: a POST of JSON to `/`, signed in its headers
//! ("AWS General Reference: Signature Version 4 signing process").
//!
//! Written here because the official `aws-sigv4` would change features of crates that the engine is
//! built from; the primitives (HMAC, SHA-256) are the library's. The tests use AWS's own published
//! values.

use std::time::SystemTime;

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac::{self, HMAC_SHA256},
};
use chrono::{DateTime, Utc};

use super::credentials::Credentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "kms";

/// The headers of a signed request, for a server's base URL; none if that has no host.
pub(super) fn headers(
    server: &str,
    operation: &str,
    body: &[u8],
    credentials: &Credentials,
    region: &str,
    now: SystemTime,
) -> Option<Vec<(&'static str, String)>> {
    let (_, host) = server.split_once("://")?;
    let host = host.split('/').next().filter(|host| !host.is_empty())?;
    let time = DateTime::<Utc>::from(now)
        .format("%Y%m%dT%H%M%SZ")
        .to_string();
    let mut headers = vec![
        ("content-type", "application/x-amz-json-1.1".to_owned()),
        ("host", host.to_owned()),
        ("x-amz-date", time.clone()),
    ];
    if let Some(token) = &credentials.token {
        headers.push(("x-amz-security-token", token.to_string()));
    }
    headers.push(("x-amz-target", format!("TrentService.{operation}")));
    let authorization = authorization(&headers, body, credentials, (region, SERVICE), &time);
    headers.push(("authorization", authorization));
    Some(headers)
}

/// `headers` in order of their names.
fn authorization(
    headers: &[(&str, String)],
    body: &[u8],
    credentials: &Credentials,
    (region, service): (&str, &str),
    time: &str,
) -> String {
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}:{}\n", value.trim()))
        .collect();
    let request = format!(
        "POST\n/\n\n{lines}\n{names}\n{}",
        hex::encode(digest(&SHA256, body))
    );
    let date = time.split('T').next().unwrap_or_default();
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let text = format!(
        "{ALGORITHM}\n{time}\n{scope}\n{}",
        hex::encode(digest(&SHA256, request.as_bytes()))
    );
    let mut key = hmac::Key::new(
        HMAC_SHA256,
        &[b"AWS4", credentials.secret.as_bytes()].concat(),
    );
    for part in [date, region, service, "aws4_request"] {
        key = hmac::Key::new(HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
    }
    let signature = hex::encode(hmac::sign(&key, text.as_bytes()));
    format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        credentials.id
    )
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn example() -> Credentials {
        Credentials {
            id: "AKIDEXAMPLE".to_owned(),
            secret: Zeroizing::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
            token: None,
        }
    }

    /// `post-vanilla` and `post-header-key-sort` of AWS's Signature Version 4 test suite.
    #[test]
    fn as_in_the_test_suite_of_aws() {
        let (date, scope) = (
            ("x-amz-date", "20150830T123600Z".to_owned()),
            ("us-east-1", "service"),
        );
        let host = ("host", "example.amazonaws.com".to_owned());
        let signed = authorization(
            &[host.clone(), date.clone()],
            b"",
            &example(),
            scope,
            &date.1,
        );
        assert_eq!(
            signed,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
        let own = ("my-header1", "value1".to_owned());
        let signed = authorization(&[host, own, date.clone()], b"", &example(), scope, &date.1);
        assert!(
            signed.ends_with(
                "Signature=c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"
            ),
            "{signed}"
        );
    }

    #[test]
    fn the_host_is_the_servers_and_a_token_is_signed_too() {
        let credentials = Credentials {
            token: Some(Zeroizing::new("t0ken".to_owned())),
            ..example()
        };
        let now = SystemTime::UNIX_EPOCH;
        let headers = headers(
            "http://127.0.0.1:5000",
            "Decrypt",
            b"{}",
            &credentials,
            "eu-west-1",
            now,
        )
        .unwrap();
        let of = |name: &str| {
            headers
                .iter()
                .find(|header| header.0 == name)
                .unwrap()
                .1
                .clone()
        };
        assert_eq!(
            (of("host").as_str(), of("x-amz-date").as_str()),
            ("127.0.0.1:5000", "19700101T000000Z")
        );
        assert_eq!(of("x-amz-target"), "TrentService.Decrypt");
        assert!(of("authorization").contains("x-amz-security-token;x-amz-target"));
    }
}
