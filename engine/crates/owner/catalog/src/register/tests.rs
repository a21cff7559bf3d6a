use coffer_custody::Passphrase;

use super::*;
use crate::{NewColumns, TableWrite, Target, open_table};
use coffer_format::SparkType;

#[test]
fn a_register_of_before_opens_and_of_later_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    let config_dir = ConfigDir::at(root.join("config"));
    config_dir.create().unwrap();
    let vault = Vault::from(
        Keyring::create(
            &config_dir.keyring(),
            &Passphrase::new("correct horse").unwrap(),
        )
        .unwrap(),
    );
    let policy = crate::policy::replace(&config_dir, vault.keyring(), "").unwrap();
    std::fs::create_dir(root.join("disk")).unwrap();
    std::os::unix::fs::symlink(root.join("disk"), root.join("data")).unwrap();
    let new = NewColumns {
        columns: vec![("a".into(), SparkType::Long, true)],
        ..NewColumns::default()
    };
    let write =
        TableWrite::create(&config_dir, &vault, &policy, "t", &root.join("disk/t"), new).unwrap();
    write.publish(Vec::new()).unwrap();
    let register = Register::of(&config_dir, vault.keyring());
    // As format 1 had it: the path that the folder led to, and nothing of the fields of now.
    let content = register.load().unwrap();
    let text = serde_json::to_string(&content).unwrap();
    for field in ["called", "spellings", "first", "dropped"] {
        assert!(!text.contains(&format!("\"{field}\"")), "{text}");
    }
    let write = |format: u16| {
        let sealed = register.key.seal(text.as_bytes()).unwrap();
        let bytes = [MAGIC, &format.to_le_bytes(), &sealed].concat();
        std::fs::write(register.path(), bytes).unwrap();
    };
    let open = |path: &str| {
        open_table(&config_dir, &vault, &policy, &Target::Path(root.join(path)))
            .map(|table| table.manifest().table)
    };
    write(1);
    let id = open("disk/t").unwrap();
    // By a link it opened before; now the link must be the owner's word.
    assert!(matches!(open("data/t"), Err(Error::PathNotRecorded { table, .. }) if table == "t"));
    register.record_spelling(id, &root.join("data/t")).unwrap();
    assert_eq!((open("data/t").unwrap(), open("disk/t").unwrap()), (id, id));
    for format in [0, FORMAT + 1, u16::MAX] {
        write(format);
        assert!(matches!(register.tables(), Err(Error::RegisterFormat(got)) if got == format));
    }
}
