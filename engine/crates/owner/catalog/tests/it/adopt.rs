//! Adopting files that other programs wrote: what of a folder is taken, what is refused, and what
//! is never touched.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::*,
    datatypes::{DataType, Field},
};
use coffer_catalog::{
    AdoptAs, AdoptError, Adoption, Error, FileReader, Kms, MANIFEST_FOLDER, NewColumns,
    Reencryption, TableWrite, Target, VerifiedManifest, clean, open_table, verify,
};
use coffer_custody::{ConfigDir, FileKeys, Keyring, Passphrase, Policy, Vault};
use coffer_format::{WriteOptions, parse_ddl};
use parquet::{
    arrow::ArrowWriter,
    encryption::encrypt::FileEncryptionProperties,
    file::{metadata::KeyValue, properties::WriterProperties},
};
use serde_json::json;

struct Owner {
    _folder: tempfile::TempDir,
    root: PathBuf,
    config_dir: ConfigDir,
    vault: Arc<Vault>,
    kms: Kms,
}

impl Owner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let config_dir = ConfigDir::at(root.join("config"));
        config_dir.create().unwrap();
        let keyring = Keyring::create(
            &config_dir.keyring(),
            &Passphrase::new("correct horse").unwrap(),
        )
        .unwrap();
        let vault = Arc::new(Vault::from(keyring));
        Self {
            _folder: folder,
            kms: Kms::new(&config_dir, Arc::clone(&vault)),
            root,
            config_dir,
            vault,
        }
    }

    fn policy(&self, text: &str) -> Policy {
        coffer_catalog::policy::replace(&self.config_dir, self.vault.keyring(), text).unwrap()
    }

    /// A file as the key tools of PyArrow and parquet-java write it: one BIGINT column `a`,
    /// uniformly encrypted.
    fn foreign(&self, path: &str, values: std::ops::Range<i64>) {
        self.foreign_column(path, Arc::new(Int64Array::from_iter_values(values)), None);
    }

    /// The same, of any column, with a note in the footer.
    fn foreign_column(&self, path: &str, column: ArrayRef, note: Option<KeyValue>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let key = vec![9; 16];
        let metadata = json!({
            "keyMaterialType": "PKMT1", "internalStorage": true, "isFooterKey": true,
                "kmsInstanceID": "DEFAULT",
            "kmsInstanceURL": "DEFAULT", "masterKeyID": "main",
                "wrappedDEK": self.kms.wrap("main", &key).unwrap(),
            "doubleWrapping": false,
        });
        let encryption = FileEncryptionProperties::builder(key)
            .with_footer_key_metadata(metadata.to_string().into_bytes())
            .build()
            .unwrap();
        let properties = WriterProperties::builder()
            .with_file_encryption_properties(encryption)
            .set_key_value_metadata(note.map(|note| vec![note]));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let file = File::create(path).unwrap();
        let mut writer =
            ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    fn look(&self, folder: &str) -> Result<Adoption, Error> {
        Adoption::look(
            &self.root.join(folder),
            &None,
            &Arc::new(FileKeys::new(Arc::clone(&self.vault))),
        )
    }

    fn publish(
        &self,
        found: Adoption,
        name: &str,
        policy: &Policy,
    ) -> Result<VerifiedManifest, Error> {
        found.publish(
            (&self.config_dir, &self.vault, policy),
            &AdoptAs { name, master: None },
            |_| (),
        )
    }

    fn adopt(&self, folder: &str) -> Result<VerifiedManifest, Error> {
        self.publish(self.look(folder)?, folder, &self.policy(""))
    }

    /// A table of ours with one row.
    fn table(&self, name: &str, folder: &str) {
        let new = NewColumns {
            columns: parse_ddl("a BIGINT").unwrap(),
            ..NewColumns::default()
        };
        let folder = self.root.join(folder);
        let table = TableWrite::create(
            &self.config_dir,
            &self.vault,
            &self.policy(""),
            name,
            &folder,
            new,
        )
        .unwrap();
        let writer = table.writer(WriteOptions::default()).unwrap();
        let mut file = writer.file().unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![column]).unwrap())
            .unwrap();
        let pin = file.finish().unwrap().pin;
        table.publish(vec![pin]).unwrap();
    }

    fn open(&self, name: &str) -> VerifiedManifest {
        open_table(
            &self.config_dir,
            &self.vault,
            &self.policy(""),
            &Target::Name(name.into()),
        )
        .unwrap()
    }

    fn is_sound(&self, name: &str) -> bool {
        verify::verify(&self.open(name), true, |_| ())
            .unwrap()
            .is_sound()
    }

    fn is_registered(&self, name: &str) -> bool {
        let register = coffer_catalog::Register::of(&self.config_dir, self.vault.keyring());
        register.by_name(name).unwrap().is_some()
    }
}

fn rows(table: &VerifiedManifest) -> usize {
    let files = table.manifest().files.iter();
    files
        .flat_map(|pin| FileReader::open(table, pin).unwrap())
        .map(|batch| batch.unwrap().num_rows())
        .sum()
}

/// Changes a byte of the first page.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[60] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_spark_noted_of_a_column_is_its_type() {
    let owner = Owner::new();
    let row = json!({ "type": "struct", "fields": [{
        "name": "a", "type": "string", "nullable": true,
            "metadata": { "__CHAR_VARCHAR_TYPE_STRING": "char(3)" },
    }] });
    let note = KeyValue::new(
        "org.apache.spark.sql.parquet.row.metadata".to_owned(),
        row.to_string(),
    );
    let column: ArrayRef = Arc::new(StringArray::from(vec!["ab ", "b"]));
    owner.foreign_column("noted/part-0.parquet", column, Some(note));
    let table = owner.adopt("noted").unwrap();
    assert_eq!(table.manifest().columns[0].kind.to_string(), "char(3)");
    // The bytes are as they were: who reads them pads.
    let found = owner.open("noted");
    let batches = FileReader::open(&found, &found.manifest().files[0]).unwrap();
    let batch = batches.map(Result::unwrap).next().unwrap();
    assert_eq!(batch.column(0).as_string::<i32>().value(1), "b");
    let read = coffer_format::char_varchar::read(&batch, &found.manifest().columns).unwrap();
    assert_eq!(read.column(0).as_string::<i32>().value(1), "b  ");
}

/// A struct column `a` whose leaves have keys of these numbers, and a BIGINT column `b`.
fn nested(owner: &Owner, folder: &str, of_leaves: [u8; 2], of_b: u8) {
    let key = |number: u8| vec![number; 16];
    let metadata = |number: u8| {
        let footer = number == 0;
        let mut text = json!({
            "keyMaterialType": "PKMT1", "internalStorage": true, "isFooterKey": footer,
            "masterKeyID": "main", "wrappedDEK": owner.kms.wrap("main", &key(number)).unwrap(),
            "doubleWrapping": false,
        });
        if footer {
            text["kmsInstanceID"] = "DEFAULT".into();
            text["kmsInstanceURL"] = "DEFAULT".into();
        }
        text.to_string().into_bytes()
    };
    // Wrapping is random: one text for each key.
    let metadata: Vec<Vec<u8>> = (0..4).map(metadata).collect();
    let of = |number: u8| metadata[usize::from(number)].clone();
    let encryption = FileEncryptionProperties::builder(key(0))
        .with_footer_key_metadata(of(0))
        .with_column_key_and_metadata("a.x", key(of_leaves[0]), of(of_leaves[0]))
        .with_column_key_and_metadata("a.l.list.item", key(of_leaves[1]), of(of_leaves[1]))
        .with_column_key_and_metadata("b", key(of_b), of(of_b))
        .build()
        .unwrap();
    let mut lists = ListBuilder::new(Int16Builder::new());
    for row in 0..30_i16 {
        lists.values().append_value(row);
        lists.append(row % 3 > 0);
    }
    let a: ArrayRef = Arc::new(StructArray::from(vec![
        (
            Arc::new(Field::new("x", DataType::UInt8, true)),
            Arc::new(UInt8Array::from_iter_values(0..30)) as ArrayRef,
        ),
        (
            Arc::new(Field::new_list(
                "l",
                Field::new_list_field(DataType::Int16, true),
                true,
            )),
            Arc::new(lists.finish()),
        ),
    ]));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values(0..30));
    let batch = RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap();
    fs::create_dir_all(owner.root.join(folder)).unwrap();
    let file = File::create(owner.root.join(folder).join("part.parquet")).unwrap();
    let properties = WriterProperties::builder().with_file_encryption_properties(encryption);
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn leaves_of_one_column_may_have_several_keys_or_share_one() {
    let owner = Owner::new();
    for (folder, leaves, keys) in [("own", [1, 2], 4), ("shared", [1, 1], 3)] {
        nested(&owner, folder, leaves, 3);
        let table = owner.adopt(folder).unwrap();
        let kind = table.manifest().columns[0].kind.to_string();
        assert_eq!(kind, "struct<x:smallint,l:array<smallint>>");
        let adopted = table.manifest().files[0].adopted.as_ref().unwrap();
        assert_eq!(adopted.keys.len(), keys);
        assert_eq!(rows(&owner.open(folder)), 30);
        assert!(owner.is_sound(folder));
    }
    nested(&owner, "across", [1, 2], 2);
    assert!(matches!(
        owner.adopt("across"),
        Err(Error::Adopt(AdoptError::SharedKey { .. }))
    ));
}

#[test]
fn folders_are_refused_under_any_name() {
    let owner = Owner::new();
    owner.foreign("sales/a.parquet", 0..100);
    for name in ["day=1", "_temporary", ".hidden", "_old"] {
        let folder = owner.root.join("sales").join(name);
        fs::create_dir(&folder).unwrap();
        let refused = owner.adopt("sales");
        assert!(
            matches!(&refused, Err(Error::Adopt(AdoptError::Folder(found))) if found == name),
            "{name}"
        );
        fs::remove_dir(&folder).unwrap();
    }
    // An adoption that failed may leave ours, and nothing in it.
    let own = owner.root.join("sales").join(MANIFEST_FOLDER);
    fs::create_dir(&own).unwrap();
    fs::write(own.join("x"), b"").unwrap();
    assert!(matches!(
        owner.adopt("sales"),
        Err(Error::Adopt(AdoptError::Known))
    ));
    fs::remove_file(own.join("x")).unwrap();
    assert_eq!(rows(&owner.adopt("sales").unwrap()), 100);
}

/// Files lie wherever their writers put them; that a master wrapped keys for some, the register
/// knows.
#[test]
fn a_master_that_files_need_is_not_destroyed_unasked() {
    let owner = Owner::new();
    let register = coffer_catalog::Register::of(&owner.config_dir, owner.vault.keyring());
    owner.vault.keyring().add_master("unused").unwrap();
    owner.foreign("sales/a.parquet", 0..100);
    let before = fs::read(owner.config_dir.register()).unwrap();
    owner.foreign("sales/b.parquet", 0..100);
    assert!(
        fs::read(owner.config_dir.register()).unwrap() == before,
        "once is enough"
    );
    owner.adopt("sales").unwrap();
    owner.vault.keyring().add_master("other").unwrap();
    let keys = register.held_keys().unwrap();
    let options = coffer_catalog::RewrapOptions {
        to: Some("other".to_owned()),
        threads: 1,
        again: false,
    };
    coffer_catalog::rewrap(&register, &owner.vault, keys, &options, |_, _| ()).unwrap();
    let destroy = |master, version, given_up| {
        register.destroy_master(&owner.vault, master, version, given_up)
    };
    destroy("unused", None, false).unwrap();
    owner.vault.keyring().rotate("main").unwrap();
    for version in [None, Some(1)] {
        let refused = destroy("main", version, false).unwrap_err();
        assert!(
            matches!(&refused, Error::MasterNeeded { tables, links, files: true, .. }
                if tables.is_empty() && links.is_empty()),
            "{refused}"
        );
    }
    let destroyed = destroy("main", Some(1), true).unwrap();
    assert!(destroyed.files && destroyed.lost.is_empty());
    // The table does not need it, and who wraps on does so by the version that is left.
    assert_eq!(rows(&owner.open("sales")), 200);
    owner.foreign("more/a.parquet", 0..100);
    owner.adopt("more").unwrap();
    assert!(matches!(
        destroy("main", Some(2), false),
        Err(Error::MasterNeeded { files: true, .. })
    ));
    assert!(destroy("main", None, true).unwrap().files);
}

/// `coffer kms` runs on while the keyring changes under it.
#[test]
fn a_running_kms_heeds_what_becomes_of_masters() {
    let owner = Owner::new();
    owner.table("t", "t");
    let table = owner.open("t");
    let keks = table.all_keks().unwrap();
    let kek = keks
        .iter()
        .find(|kek| kek.id().column_id().is_none())
        .unwrap();
    let wrapped = kek.wrap(&[7; 16]).unwrap();
    let open = || owner.kms.unwrap(&kek.id().to_string(), &wrapped);
    assert_eq!(*open().unwrap(), [7; 16]);
    owner.vault.keyring().set_enabled("main", false).unwrap();
    assert!(matches!(open(), Err(Error::Key { .. })));
    owner.vault.keyring().set_enabled("main", true).unwrap();
    assert_eq!(*open().unwrap(), [7; 16]);
    // Under another master now.
    owner.vault.keyring().add_master("other").unwrap();
    let register = coffer_catalog::Register::of(&owner.config_dir, owner.vault.keyring());
    let options = coffer_catalog::RewrapOptions {
        to: Some("other".to_owned()),
        threads: 1,
        again: false,
    };
    coffer_catalog::rewrap(
        &register,
        &owner.vault,
        register.held_keys().unwrap(),
        &options,
        |_, _| (),
    )
    .unwrap();
    register
        .destroy_master(&owner.vault, "main", None, false)
        .unwrap();
    assert_eq!(*open().unwrap(), [7; 16]);
    assert!(owner.kms.wrap("main", &[7; 16]).is_err());
}

#[test]
fn a_table_that_the_policy_has_elsewhere_is_refused_before_anything_is_done() {
    let owner = Owner::new();
    owner.foreign("sales/a.parquet", 0..100);
    fs::create_dir(owner.root.join("elsewhere")).unwrap();
    let at = |path: &str| {
        owner.policy(&format!(
            "[tables.sales]\npath = {:?}\n",
            owner.root.join(path)
        ))
    };
    for path in ["elsewhere", "nowhere"] {
        let refused = owner.publish(owner.look("sales").unwrap(), "sales", &at(path));
        assert!(
            matches!(refused, Err(Error::Adopt(AdoptError::Path { .. }))),
            "{path}"
        );
        assert!(!owner.is_registered("sales"));
    }
    // The same folder, spelled otherwise.
    std::os::unix::fs::symlink(owner.root.join("sales"), owner.root.join("link")).unwrap();
    owner
        .publish(owner.look("link").unwrap(), "sales", &at("link"))
        .unwrap();
}

/// As Spark leaves a folder: with its markers, which are nobody's rows.
#[test]
fn what_spark_left_beside_its_files_goes_with_them() {
    let owner = Owner::new();
    owner.foreign("sales/part-00000.parquet", 0..100);
    let markers = ["._SUCCESS.crc", ".part-00000.parquet.crc", "_SUCCESS"];
    for name in markers {
        fs::write(owner.root.join("sales").join(name), b"").unwrap();
    }
    let adopted = owner.adopt("sales").unwrap();
    assert!(owner.is_sound("sales"));
    clean::clean(&owner.config_dir, &adopted).unwrap();
    let write = Reencryption::begin(
        &owner.config_dir,
        &owner.vault,
        &owner.policy(""),
        &adopted,
        "main",
    )
    .unwrap();
    let writer = write.writer(WriteOptions::default()).unwrap();
    let mut file = writer.file().unwrap();
    for batch in FileReader::open(&adopted, &adopted.manifest().files[0]).unwrap() {
        file.write(&batch.unwrap()).unwrap();
    }
    let pin = file.finish().unwrap().pin;
    write.publish(&owner.vault, vec![pin]).unwrap();
    drop(adopted);
    assert_eq!(rows(&owner.open("sales")), 100);
    assert!(owner.is_sound("sales"));
    clean::clean(&owner.config_dir, &owner.open("sales")).unwrap();
    assert!(owner.is_sound("sales"));
    for name in markers.iter().chain(&["part-00000.parquet"]) {
        assert!(!owner.root.join("sales").join(name).exists(), "{name}");
    }
}

#[test]
fn another_table_inside_keeps_its_files() {
    let owner = Owner::new();
    owner.foreign("sales/a.parquet", 0..100);
    let file = owner.root.join("sales/a.parquet");
    let whole = fs::read(&file).unwrap();
    // It comes while the files are looked at, and the adoption then fails.
    let found = owner.look("sales").unwrap();
    owner.table("old", "sales/_old");
    owner.table("day", "sales/day=1");
    damage(&file);
    assert!(owner.publish(found, "sales", &owner.policy("")).is_err());
    assert!(!owner.is_registered("sales"));
    assert!(owner.is_sound("old") && owner.is_sound("day"));
    assert!(matches!(
        owner.adopt("sales"),
        Err(Error::Adopt(AdoptError::Folder(_)))
    ));

    // It comes afterwards, and somebody cleans.
    let elsewhere =
        |from: &str, to: &str| fs::rename(owner.root.join(from), owner.root.join(to)).unwrap();
    elsewhere("sales/_old", "aside");
    elsewhere("sales/day=1", "day");
    fs::write(&file, whole).unwrap();
    owner.adopt("sales").unwrap();
    elsewhere("aside", "sales/_old");
    elsewhere("day", "sales/day=1");
    // A leftover of ours, in a folder of a partition and beside the files.
    fs::create_dir(owner.root.join("sales/p=1")).unwrap();
    let leftovers = ["p=1/.tmp-0123456789abcdef", ".tmp-0123456789abcdef"];
    for name in leftovers {
        fs::write(owner.root.join("sales").join(name), b"").unwrap();
    }
    let mut removed = clean::clean(&owner.config_dir, &owner.open("sales"))
        .unwrap()
        .removed;
    removed.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    assert_eq!(removed, leftovers.map(PathBuf::from));
    assert!(owner.is_sound("old") && owner.is_sound("day"));
    assert_eq!(rows(&owner.open("sales")), 100);
    // They are not passed over either.
    let extra = verify::verify(&owner.open("sales"), false, |_| ())
        .unwrap()
        .extra;
    assert!(
        extra.iter().any(|path| path.starts_with("_old"))
            && extra.iter().any(|path| path.starts_with("day=1"))
    );
}
