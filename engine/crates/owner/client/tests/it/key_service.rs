//! A key service and the accounts that knock: by the kernel's word, which here is this process's
//! own account.

use crate::harness;

use std::{os::unix::fs::MetadataExt, sync::Arc};

use coffer_client::{KeyService, connection};
use coffer_custody::{ConfigDir, Keyring};
use coffer_process::{address::Address, listen::Listener};
use harness::Site;

/// A site whose policy has one user, of this account number.
async fn serving(account: u32) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let config_dir = ConfigDir::at(folder.path().join("config"));
    config_dir.create().unwrap();
    let keyring = Keyring::create(&config_dir.keyring(), &harness::passphrase()).unwrap();
    let policy = format!("{}[users.ann]\naccount = {account}\n", harness::POLICY);
    coffer_catalog::policy::replace(&config_dir, &keyring, &policy).unwrap();
    let keys = KeyService::open(config_dir.clone(), &harness::passphrase()).unwrap();
    let listener = Listener::bind(&Address::Unix(folder.path().join("keys"))).unwrap();
    let address = listener.address().clone();
    tokio::spawn(connection::accept_users(Arc::new(keys), listener));
    Site {
        folder,
        config_dir,
        address,
    }
}

fn own_uid() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_refused_before_it_says_a_word() {
    let site = serving(own_uid() ^ 1).await;
    for _ in 0..40 {
        let mut silent = site.stranger().await;
        assert_eq!(silent.receive().await.unwrap_err().code, "unknown_account");
        // Who greets at once reads the same, not that the connection broke.
        let mut greeting = site.stranger().await;
        assert_eq!(
            greeting.hello(false).await.unwrap_err().code,
            "unknown_account"
        );
    }
    let keyring = Keyring::open(&site.config_dir.keyring(), &harness::passphrase()).unwrap();
    let log = coffer_audit::AuditLog::of(&site.config_dir, &keyring);
    let records: Vec<_> = log.records().unwrap().map(Result::unwrap).collect();
    let [record] = records.as_slice() else {
        panic!("one record: {records:#?}");
    };
    assert_eq!(
        (record.who.user.as_str(), record.who.uid),
        ("(nobody)", own_uid())
    );
    assert_eq!(
        (record.event.action.as_str(), record.event.code.as_deref()),
        ("connect", Some("unknown_account"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_account_is_let_in() {
    let site = serving(own_uid()).await;
    let mut client = site.stranger().await;
    client.hello(false).await.unwrap();
    let mut again = site.stranger().await;
    again.hello(false).await.unwrap();
}
