//! A data owner in a folder of its own, who types commands.

#![allow(dead_code, reason = "each test program uses what it needs of it")]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use parquet::{
    arrow::ArrowWriter, encryption::encrypt::FileEncryptionProperties,
    file::properties::WriterProperties,
};
use serde_json::{Value, json};

/// What no command needs, on however slow a machine.
const DEADLINE: Duration = Duration::from_secs(300);

/// What ends, or is killed and so fails its test.
pub(crate) trait Ends {
    /// What it wrote where that was piped, and how it ended.
    fn ends(self) -> Output;
}

impl Ends for Child {
    fn ends(self) -> Output {
        let id = self.id();
        let (done, waiting) = mpsc::channel::<()>();
        let watchdog = thread::spawn(move || {
            if waiting.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
                Command::new("kill")
                    .args(["-KILL", &id.to_string()])
                    .status()
                    .unwrap();
            }
        });
        let output = self.wait_with_output().unwrap();
        drop(done);
        watchdog.join().unwrap();
        output
    }
}

impl Ends for &mut Command {
    fn ends(self) -> Output {
        self.spawn().unwrap().ends()
    }
}

pub(crate) struct Owner {
    pub(crate) folder: tempfile::TempDir,
}

impl Owner {
    /// With a fresh config directory.
    pub(crate) fn new() -> Self {
        let owner = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        owner.ok(&["init"]);
        owner
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `coffer`, for the config directory of this name.
    pub(crate) fn command(&self, config_dir: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coffer"));
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("COFFER_CONFIG_DIR", self.path(config_dir))
            .env("COFFER_PASSPHRASE", "correct horse")
            .env("COFFER_EXPORT_PASSPHRASE", "battery staple")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command("config").args(arguments).ends()
    }

    /// What a command that must succeed prints.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        done(self.run(arguments), arguments)
    }

    /// The same, of a command that has `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// stderr of a command that must fail so.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        failed(self.run(arguments), code, arguments)
    }

    /// What `coffer kms` answers to these requests, line by line.
    pub(crate) fn kms(&self, requests: &[Value]) -> Vec<Value> {
        let mut child = self
            .command("config")
            .arg("kms")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        for request in requests {
            writeln!(input, "{request}").unwrap();
        }
        drop(input);
        let answers = done(child.ends(), &["kms"]);
        answers
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Adds to the policy, unsigned.
    pub(crate) fn draft(&self, more: &str) {
        let path = self.path("config/policy.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}\n{more}\n")).unwrap();
    }

    /// Adds to the policy.
    pub(crate) fn policy(&self, more: &str) {
        self.draft(more);
        self.ok(&["policy", "sign", "--yes"]);
    }

    /// Makes this the policy.
    pub(crate) fn sign(&self, text: &str) {
        self.write("config/policy.toml", text);
        self.ok(&["policy", "sign", "--yes"]);
    }

    /// A Parquet file, in row groups of so many rows.
    pub(crate) fn parquet(&self, name: &str, batch: &RecordBatch, group: usize) {
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group))
            .build();
        let file = fs::File::create(self.path(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
    }

    /// A Parquet file as the key tools of PyArrow and parquet-java write it: one BIGINT column
    /// `id`, uniformly encrypted under `main`.
    pub(crate) fn foreign(&self, name: &str, ids: std::ops::Range<i64>) {
        let key = [9; 16];
        let request = json!({ "master": "main", "wrap": BASE64.encode(key) });
        let wrapped = self.kms(&[request]).remove(0)["wrapped"].clone();
        let metadata = json!({
            "keyMaterialType": "PKMT1", "internalStorage": true, "isFooterKey": true,
                "kmsInstanceID": "DEFAULT",
            "kmsInstanceURL": "DEFAULT", "masterKeyID": "main", "wrappedDEK": wrapped,
                "doubleWrapping": false,
        });
        let encryption = FileEncryptionProperties::builder(key.to_vec())
            .with_footer_key_metadata(metadata.to_string().into_bytes())
            .build()
            .unwrap();
        let properties = WriterProperties::builder().with_file_encryption_properties(encryption);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(path).unwrap();
        let mut writer =
            ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    /// All files below a folder, with what is in them.
    pub(crate) fn files(&self, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        below(&self.path(name), &mut files);
        files.sort();
        files
    }
}

fn below(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => below(&path, files),
            false => files.push((path.clone(), fs::read(path).unwrap())),
        }
    }
}

/// What a command printed that must have succeeded.
pub(crate) fn done(output: Output, arguments: &[&str]) -> String {
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// stderr of a command that must have failed so.
pub(crate) fn failed(output: Output, code: i32, arguments: &[&str]) -> String {
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(message.contains("error: "), "{message}");
    message
}
