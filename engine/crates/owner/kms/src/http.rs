//! One HTTP exchange: no redirects, no proxy but the policy's word, a time for the whole of it, a
//! bound on what comes back.

use std::{fs, path::Path, sync::Arc, time::Duration};

use ureq::{
    Agent,
    config::Config,
    http::{Request, Uri},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem},
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};
use zeroize::Zeroizing;

use crate::in_short;

/// Bytes of an answer at most.
const MAX_ANSWER: u64 = 64 << 10;
/// Connections that are kept for the next request: as many as `coffer keys rewrap` has threads, and
/// some.
const KEPT: usize = 64;
/// A certificate file is no larger.
const MAX_CERTIFICATES: u64 = 4 << 20;

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// May hold a key.
    pub(crate) body: Zeroizing<Vec<u8>>,
}

impl Answer {
    /// The body as words for an error. Answers with a status of success are no such words.
    pub(crate) fn message(&self) -> String {
        in_short(&String::from_utf8_lossy(&self.body))
    }
}

/// Why nothing came back.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing was sent: there is no connection.
    Unsent(String),
    /// The server is away, slow, or hung up: another, or the same later, may do.
    Away(String),
    /// It answers what is no HTTP, or too much of it.
    Garbage(String),
    /// It cannot be asked as things are set up: TLS does not come about (its certificate, its
    /// ciphers), or nobody can sign for it. Nothing was sent.
    Settings(String),
}

/// A client for the servers of one master.
pub(crate) struct Http(Agent);

impl Http {
    /// For servers at these addresses. `plain`: hosts that may be asked over plain HTTP, wherever
    /// they are. `ca`: PEM certificates to trust instead of the system's, which are read only if
    /// somebody speaks TLS: that takes some ten milliseconds. An error is for people.
    pub(crate) fn new(
        servers: &[String],
        plain: &[String],
        ca: Option<&Path>,
    ) -> Result<Self, String> {
        let tls = ca.is_some() || servers.iter().any(|server| !server.starts_with("http://"));
        let roots = if tls { roots(ca)? } else { Vec::new() };
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(
                rustls::crypto::aws_lc_rs::default_provider(),
            ))
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent("coffer")
            .max_response_header_size(16 << 10)
            .max_idle_age(Duration::from_secs(10))
            .max_idle_connections(KEPT)
            .max_idle_connections_per_host(KEPT)
            .build();
        let resolver = Nearby {
            plain: plain.to_vec(),
            names: DefaultResolver::default(),
        };
        Ok(Self(Agent::with_parts(
            config,
            DefaultConnector::default(),
            resolver,
        )))
    }

    /// Sends a request and reads the answer, in at most this time.
    pub(crate) fn exchange(
        &self,
        request: Request<Vec<u8>>,
        within: Duration,
    ) -> Result<Answer, Trouble> {
        let request = self
            .0
            .configure_request(request)
            .timeout_global(Some(within))
            .timeout_connect(Some(within.min(Duration::from_secs(5))))
            .build();
        let mut response = self
            .0
            .run(request)
            .map_err(|error| trouble(error, within))?;
        let body = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER)
            .read_to_vec();
        Ok(Answer {
            status: response.status().as_u16(),
            body: Zeroizing::new(body.map_err(|error| trouble(error, within))?),
        })
    }
}

/// Finds addresses; for plain HTTP those of this machine alone, unless the policy names the host. A
/// name such as `localhost` means what whoever answers for names says it does.
#[derive(Debug)]
struct Nearby {
    plain: Vec<String>,
    names: DefaultResolver,
}

impl Resolver for Nearby {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        let host = uri
            .host()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_lowercase();
        let sealed = uri.scheme_str() == Some("https");
        let here = || {
            found
                .iter()
                .all(|address| address.ip().to_canonical().is_loopback())
        };
        match sealed || self.plain.contains(&host) || here() {
            true => Ok(found),
            false => Err(ureq::Error::Other(Box::new(NotHere(host)))),
        }
    }
}

/// A host that was taken for this machine.
#[derive(Debug)]
struct NotHere(String);

impl std::fmt::Display for NotHere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "plain HTTP to {}, which is not this machine", self.0)
    }
}

impl std::error::Error for NotHere {}

fn trouble(error: ureq::Error, within: Duration) -> Trouble {
    match error {
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            Trouble::Unsent("no connection in time".to_owned())
        }
        ureq::Error::Timeout(_) => {
            Trouble::Away(format!("no answer within {:.1} s", within.as_secs_f32()))
        }
        // rustls' errors arrive inside of I/O errors.
        ureq::Error::Io(error) => match error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            Some(tls) => untrusted(tls),
            None if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                Trouble::Unsent("connection refused".to_owned())
            }
            None => Trouble::Away(in_short(&error.to_string())),
        },
        ureq::Error::HostNotFound => Trouble::Unsent("no such host".to_owned()),
        ureq::Error::ConnectionFailed => Trouble::Unsent("no connection".to_owned()),
        ureq::Error::Rustls(error) => untrusted(&error),
        ureq::Error::Tls(message) => Trouble::Settings(message.to_owned()),
        ureq::Error::Other(error) if error.is::<NotHere>() => Trouble::Settings(error.to_string()),
        ureq::Error::BodyExceedsLimit(limit) => {
            Trouble::Garbage(format!("more than {limit} bytes"))
        }
        error => Trouble::Garbage(in_short(&error.to_string())),
    }
}

fn untrusted(error: &rustls::Error) -> Trouble {
    Trouble::Settings(in_short(&format!("TLS: {error}")))
}

fn roots(ca: Option<&Path>) -> Result<Vec<Certificate<'static>>, String> {
    let Some(path) = ca else {
        let found = rustls_native_certs::load_native_certs();
        return Ok((found.certs.iter())
            .map(|certificate| Certificate::from_der(certificate.as_ref()).to_owned())
            .collect());
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let size = fs::metadata(path).map_err(|error| failed(&error))?.len();
    if size > MAX_CERTIFICATES {
        return Err(failed(&"too large for a file of certificates"));
    }
    let text = fs::read(path).map_err(|error| failed(&error))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| failed(&error))? {
            certificates.push(certificate);
        }
    }
    // An empty list would trust nobody, which is safe and a mystery.
    if certificates.is_empty() {
        return Err(failed(&"there is no PEM certificate in it"));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
        time::Instant,
    };

    use super::*;

    /// A server that says these bytes to everyone, after a while.
    fn says(bytes: &'static [u8], after: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                thread::sleep(after);
                let _ = stream.write_all(bytes);
            }
        });
        address
    }

    fn ask(address: &str, within: Duration) -> Result<Answer, Trouble> {
        let request = Request::get(address).body(Vec::new()).unwrap();
        Http::new(&[address.to_owned()], &[], None)
            .unwrap()
            .exchange(request, within)
    }

    #[test]
    fn plain_http_does_not_leave_this_machine() {
        // An address that is nobody's: a connection to it would take its time.
        for host in ["192.0.2.1", "[2001:db8::1]"] {
            let asked = ask(&format!("http://{host}:9/"), 10 * SECOND);
            assert!(
                matches!(asked, Err(Trouble::Settings(message))
                    if message.contains("not this machine")),
                "{host}"
            );
        }
        // One that the policy names is asked, here in vain.
        let request = Request::get("http://192.0.2.1:9/")
            .body(Vec::new())
            .unwrap();
        let named =
            Http::new(&["http://192.0.2.1:9/".into()], &["192.0.2.1".into()], None).unwrap();
        assert!(!matches!(
            named.exchange(request, SECOND / 4),
            Err(Trouble::Settings(_))
        ));
        for host in ["localhost", "127.0.0.1"] {
            let answered = says(
                b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                Duration::ZERO,
            );
            assert_eq!(
                ask(&answered.replace("127.0.0.1", host), 10 * SECOND)
                    .unwrap()
                    .status,
                200
            );
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn answers_have_a_status_and_a_body() {
        let answer = ask(
            &says(
                b"HTTP/1.1 403 No\r\ncontent-length: 5\r\n\r\nno\nno",
                Duration::ZERO,
            ),
            10 * SECOND,
        )
        .unwrap();
        assert_eq!((answer.status, answer.message().as_str()), (403, "no no"));
        // A redirect is an answer, and is not followed: an address comes from the policy alone.
        let there =
            b"HTTP/1.1 302 There\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(
            ask(&says(there, Duration::ZERO), 10 * SECOND)
                .unwrap()
                .status,
            302
        );
    }

    #[test]
    fn slow_garbled_and_endless_answers_end() {
        let start = Instant::now();
        let slow = says(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 60 * SECOND);
        assert!(matches!(ask(&slow, SECOND / 4), Err(Trouble::Away(message))
                if message.contains("0.2 s")));
        assert!(start.elapsed() < 30 * SECOND);
        assert!(matches!(
            ask(
                &says(b"\x16\x03\x01 what?\r\n\r\n", Duration::ZERO),
                10 * SECOND
            ),
            Err(Trouble::Garbage(_))
        ));
        static MUCH: [u8; 100_000] = [b' '; 100_000];
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
        let much: &'static [u8] = Box::leak([head.as_slice(), &MUCH].concat().into_boxed_slice());
        assert!(
            matches!(ask(&says(much, Duration::ZERO), 10 * SECOND), Err(Trouble::Garbage(message))
                if message.contains("65536"))
        );
        let cut = says(
            b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf",
            Duration::ZERO,
        );
        assert!(matches!(
            ask(&cut, 10 * SECOND),
            Err(Trouble::Away(_) | Trouble::Garbage(_))
        ));
        let nobody = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        assert!(matches!(
            ask(&format!("http://{nobody}/"), 10 * SECOND),
            Err(Trouble::Unsent(_))
        ));
    }

    #[test]
    fn a_file_without_certificates_is_no_trust() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(
            Http::new(&[], &[], Some(file.path()))
                .err()
                .unwrap()
                .contains("no PEM certificate")
        );
        assert!(
            Http::new(
                &["http://plain".into()],
                &[],
                Some(Path::new("/nowhere.pem"))
            )
            .is_err()
        );
    }
}
