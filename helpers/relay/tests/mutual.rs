//! Both ends, with certificates of authorities that are made here.

use std::{path::PathBuf, sync::Arc, time::Duration};

use coffer_protocol::{
    framing::{Message, put_message, read_message_up_to},
    wire::{ClientMessage, Hello, Introduce, Problem},
};
use coffer_relay::{Files, Server, connect_once, forward, introduce, own_socket};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// An authority, and the files of what it made.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

/// A certificate with its key.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
    der: Vec<u8>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn pair(&self, name: &str, names: Vec<SanType>) -> Pair {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "common@example.org");
        params.subject_alt_names = names;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair {
            certificate: self.folder.path().join(format!("{name}.pem")),
            key: self.folder.path().join(format!("{name}.key")),
            der: made.der().to_vec(),
        };
        std::fs::write(&pair.certificate, made.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

fn mail(name: &str) -> SanType {
    SanType::Rfc822Name(name.try_into().unwrap())
}

fn host() -> Vec<SanType> {
    vec![SanType::IpAddress("127.0.0.1".parse().unwrap())]
}

fn connector(of: &Pair, authority: &Authority) -> TlsConnector {
    let files = Files {
        certificate: &of.certificate,
        key: &of.key,
        authority: &authority.file(),
    };
    TlsConnector::from(Arc::new(files.client().unwrap()))
}

/// A server for users of one authority, whose own certificate is of another; what it brings comes
/// to the listener.
async fn server(users: &Authority, site: &Authority) -> (String, UnixListener) {
    let own = site.pair("server", host());
    let files = Files {
        certificate: &own.certificate,
        key: &own.key,
        authority: &users.file(),
    };
    let socket = site.folder.path().join("keys");
    let brought = own_socket(&socket).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let acceptor = TlsAcceptor::from(Arc::new(files.server().unwrap()));
    tokio::spawn(Arc::new(Server::new(acceptor, socket)).accept(listener));
    (address, brought)
}

async fn message(from: &mut UnixStream) -> Message {
    read_message_up_to(from, 1 << 16).await.unwrap().unwrap()
}

#[test]
fn a_certificate_is_its_alternative_names_and_not_its_subjects() {
    let authority = Authority::new();
    let uri = SanType::URI("spiffe://example.org/ann".try_into().unwrap());
    let dns = SanType::DnsName("ann.example.org".try_into().unwrap());
    let pair = authority.pair("ann", vec![mail("ann@example.org"), uri, dns]);
    let Introduce { names, fingerprint } = introduce(&pair.der).unwrap();
    let want = [
        "ann@example.org",
        "spiffe://example.org/ann",
        "ann.example.org",
    ];
    assert_eq!(names, want);
    assert_eq!(fingerprint.len(), 32);
    assert_eq!(
        introduce(&authority.pair("none", Vec::new()).der)
            .unwrap()
            .names,
        [""; 0]
    );
    for cut in [0, 1, 40, pair.der.len() - 1] {
        assert!(introduce(&pair.der[..cut]).is_none());
    }
}

#[tokio::test]
async fn who_has_a_certificate_is_introduced_and_heard() {
    let (users, site) = (Authority::new(), Authority::new());
    let (address, brought) = server(&users, &site).await;
    let ann = users.pair("ann", vec![mail("ann@example.org")]);
    // As a driver does: over its own relay's socket.
    let near = users.folder.path().join("near");
    let forwarding = forward(own_socket(&near).unwrap(), connector(&ann, &site), address);
    tokio::spawn(forwarding);
    let mut driver = UnixStream::connect(&near).await.unwrap();
    let mut hello = Vec::new();
    put_message(&mut hello, 1, &Hello::default()).unwrap();
    driver.write_all(&hello).await.unwrap();

    let (mut service, _) = brought.accept().await.unwrap();
    let first = message(&mut service).await;
    assert_eq!(i32::from(first.kind), i32::from(ClientMessage::Introduce));
    let whom: Introduce = first.decode("INTRODUCE").unwrap();
    assert_eq!(whom.names, ["ann@example.org"]);
    assert_eq!(whom.fingerprint, introduce(&ann.der).unwrap().fingerprint);
    assert_eq!(message(&mut service).await.kind, 1);
    service.write_all(b"welcome").await.unwrap();
    let mut heard = [0; 7];
    driver.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"welcome");
    // Whoever goes is gone at the other end.
    drop(driver);
    assert_eq!(service.read(&mut heard).await.unwrap(), 0);
}

#[tokio::test]
async fn nobody_else_is_brought() {
    let (users, site, others) = (Authority::new(), Authority::new(), Authority::new());
    let (address, brought) = server(&users, &site).await;
    // Of another authority, even by the same name; the key service's own certificate.
    for stranger in [
        others.pair("ann", vec![mail("ann@example.org")]),
        site.pair("other", host()),
    ] {
        let refused = async {
            let mut stream = connect_once(&connector(&stranger, &site), &address).await?;
            stream.read_u8().await
        };
        assert!(refused.await.is_err());
    }
    // Without a certificate; without TLS; half of a handshake.
    let mut plain = TcpStream::connect(&address).await.unwrap();
    let mut hello = Vec::new();
    put_message(&mut hello, 1, &Hello::default()).unwrap();
    plain.write_all(&hello).await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("welcome"));
    let brought = tokio::time::timeout(Duration::from_millis(300), brought.accept());
    assert!(brought.await.is_err(), "somebody was brought");
}

#[tokio::test]
async fn a_driver_speaks_to_the_key_service_alone() {
    let (users, site, others) = (Authority::new(), Authority::new(), Authority::new());
    let (address, _brought) = server(&users, &site).await;
    let ann = users.pair("ann", vec![mail("ann@example.org")]);
    // One that another authority vouches for.
    let error = connect_once(&connector(&ann, &others), &address).await;
    assert!(error.unwrap_err().to_string().contains("certificate"));
    // One of another name.
    let port = address.rsplit_once(':').unwrap().1;
    let error = connect_once(&connector(&ann, &site), &format!("localhost:{port}")).await;
    assert!(error.unwrap_err().to_string().contains("certificate"));
    // What a driver is told of it.
    let near = users.folder.path().join("near");
    tokio::spawn(forward(
        own_socket(&near).unwrap(),
        connector(&ann, &others),
        address,
    ));
    let mut driver = UnixStream::connect(&near).await.unwrap();
    let problem: Problem = message(&mut driver).await.decode("PROBLEM").unwrap();
    assert_eq!(problem.code, "network");
}
