//! AWS Signature Version 4 in a request's headers, by `aws-sigv4`.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use coffer_kms::aws::{Answer, Failure, SecretText, Unsigned};
use zeroize::Zeroizing;

/// The headers to add.
pub(crate) fn headers(
    request: &Unsigned,
    credentials: &Credentials,
    now: SystemTime,
) -> Result<Answer, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::settings(format!("the request cannot be signed: {error}"))
    };
    // `aws-sigv4` panics where there is no host to sign.
    let host = request.url.split_once("://").map(|(_, rest)| rest);
    if host.is_none_or(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#'])) {
        return Err(failed(&"its URL names no host"));
    }
    let identity = credentials.clone().into();
    let settings = v4::SigningParams::builder()
        .identity(&identity)
        .region(&request.region)
        .name(&request.service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(&error))?;
    let headers = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let body = SignableBody::Precomputed(request.digest.clone());
    let signable = SignableRequest::new(&request.method, &request.url, headers, body)
        .map_err(|error| failed(&error))?;
    let (instructions, _) = sign(signable, &settings.into())
        .map_err(|error| failed(&error))?
        .into_parts();
    let (headers, _) = instructions.into_parts();
    let headers = headers.iter().map(|header| {
        let value = Zeroizing::new(header.value().to_owned());
        (header.name().to_owned(), SecretText::new(value))
    });
    Ok(Answer::Signed(headers.collect()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// SHA-256 of nothing.
    const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn signed(headers_of: &[(&str, &str)], token: Option<&str>) -> Vec<(String, String)> {
        let request = Unsigned {
            service: "service".to_owned(),
            region: "us-east-1".to_owned(),
            method: "POST".to_owned(),
            url: "https://example.amazonaws.com/".to_owned(),
            headers: headers_of
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            digest: NOTHING.to_owned(),
        };
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let token = token.map(str::to_owned);
        let credentials = Credentials::new("AKIDEXAMPLE", secret, token, None, "test");
        // 20150830T123600Z
        let now = UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let Ok(Answer::Signed(headers)) = headers(&request, &credentials, now) else {
            panic!()
        };
        let texts = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.expose().to_owned()));
        texts.collect()
    }

    fn of<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
        &headers.iter().find(|(found, _)| found == name).unwrap().1
    }

    /// `post-vanilla` and `post-header-key-sort` of AWS's Signature Version 4 test suite.
    #[test]
    fn as_in_the_test_suite_of_aws() {
        let host = ("host", "example.amazonaws.com");
        let headers = signed(&[host], None);
        assert_eq!(of(&headers, "x-amz-date"), "20150830T123600Z");
        assert_eq!(
            of(&headers, "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
        let headers = signed(&[host, ("my-header1", "value1")], None);
        let signature = "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c";
        assert!(
            of(&headers, "authorization").ends_with(signature),
            "{headers:?}"
        );
    }

    #[test]
    fn a_token_is_sent_and_signed_too() {
        let headers = signed(&[("x-amz-target", "TrentService.Decrypt")], Some("t0ken"));
        assert_eq!(of(&headers, "x-amz-security-token"), "t0ken");
        let names = "SignedHeaders=host;x-amz-date;x-amz-security-token;x-amz-target";
        assert!(of(&headers, "authorization").contains(names), "{headers:?}");
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn what_is_no_request_is_not_signed() {
        for url in ["", "/path", "http://", "no host"] {
            let request = Unsigned {
                service: "kms".to_owned(),
                region: "us-east-1".to_owned(),
                method: "POST".to_owned(),
                url: url.to_owned(),
                headers: Vec::new(),
                digest: NOTHING.to_owned(),
            };
            let credentials = Credentials::new("id", "secret", None, None, "test");
            assert!(
                headers(&request, &credentials, UNIX_EPOCH).is_err(),
                "{url:?}"
            );
        }
    }
}
