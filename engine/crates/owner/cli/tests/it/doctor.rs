//! `coffer doctor` as people and scripts meet it: words, exit codes, JSON, and a web UI that is
//! asked. `COFFER_REGENERATE=1` rewrites the golden files.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};

use crate::common::Ends;

/// A configuration with which nothing is found.
const SOUND: &str = "\
spark.master spark://10.0.0.1:7077
spark.plugins org.apache.spark.sql.coffer.CofferPlugin
spark.sql.extensions org.apache.spark.sql.coffer.CofferExtensions
spark.authenticate true
spark.network.crypto.enabled true
spark.network.crypto.cipher AES/GCM/NoPadding
spark.network.crypto.authEngineVersion 2
spark.network.crypto.saslFallback false
spark.io.encryption.enabled true
spark.local.dir /var/lib/spark/local
spark.master.rest.enabled false
spark.sql.sources.default coffer
spark.ui.enabled false
spark.driver.extraJavaOptions -Xss4m \
-Djdk.serialFilterFactory=org.apache.spark.sql.coffer.driver.SerialFilterFactory
";

struct Setup {
    folder: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coffer"));
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("COFFER_CONFIG_DIR", self.folder.path().join("config"))
            .arg("doctor")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, code: i32, arguments: &[&str]) -> (String, String) {
        self.checked(code, self.command(arguments).ends())
    }

    /// stdout and stderr, the folder's name taken out.
    fn checked(&self, code: i32, output: Output) -> (String, String) {
        let text = |bytes| {
            let own = self.folder.path().to_str().unwrap();
            String::from_utf8(bytes).unwrap().replace(own, "FOLDER")
        };
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(code), "{out}{err}");
        (out, err)
    }

    fn golden(&self, name: &str, code: i32, arguments: &[&str]) {
        let (out, err) = self.run(code, arguments);
        let text = format!(
            "$ coffer doctor {}\n{out}---- stderr\n{err}",
            arguments.join(" ")
        );
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden/doctor")
            .join(name);
        if std::env::var_os("COFFER_REGENERATE").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let want = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            text,
            want,
            "{} is stale: run with COFFER_REGENERATE=1",
            path.display()
        );
    }

    /// The ids of what is found with these settings added to the sound ones.
    fn ids(&self, settings: &str) -> Vec<String> {
        self.write("one.conf", &format!("{SOUND}{settings}"));
        let output = self
            .command(&["--properties-file", "one.conf", "--json"])
            .ends();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let code = if findings.is_empty() { 0 } else { 1 };
        assert_eq!(output.status.code(), Some(code));
        findings
            .iter()
            .map(|finding| finding["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn words_of_a_sound_and_of_a_bare_configuration() {
    let setup = Setup::new();
    setup.write("sound.conf", SOUND);
    setup.write("bare.conf", "spark.master spark://10.0.0.1:7077\n");
    setup.golden("sound.txt", 0, &["--properties-file", "sound.conf"]);
    setup.golden("bare.txt", 1, &["--properties-file", "bare.conf"]);
    setup.golden("local.txt", 1, &["--master", "local[4]"]);
    setup.golden(
        "json.txt",
        1,
        &[
            "--properties-file",
            "sound.conf",
            "-c",
            "spark.authenticate=false",
            "--json",
        ],
    );
    setup.golden("list.txt", 0, &["--list"]);
}

#[test]
fn each_setting_is_found() {
    let setup = Setup::new();
    assert!(setup.ids("").is_empty());
    let cases = [
        ("spark.plugins other", "coffer-plugin"),
        ("spark.coffer.kms.token x", "coffer-secret"),
        ("spark.executorEnv.COFFER_PASSPHRASE x", "coffer-secret"),
        (
            "spark.serializer org.apache.spark.serializer.KryoSerializer",
            "coffer-serializer",
        ),
        ("spark.driver.extraJavaOptions -Xss4m", "coffer-filter"),
        ("spark.shuffle.push.enabled true", "coffer-shuffle"),
        (
            "spark.coffer.driver.allowClasses a.B",
            "coffer-allowed-classes",
        ),
        (
            "spark.coffer.driver.allowPickles a.B",
            "coffer-allowed-pickles",
        ),
        ("spark.sql.adaptive.enabled false", "adaptive-off"),
        (
            "spark.network.crypto.cipher AES/CTR/NoPadding",
            "rpc-cipher",
        ),
        ("spark.network.crypto.cipher", "rpc-cipher"),
        (
            "spark.network.crypto.authEngineVersion 1",
            "rpc-key-exchange",
        ),
        (
            "spark.network.crypto.saslFallback true",
            "rpc-sasl-fallback",
        ),
        ("spark.network.crypto.enabled false", "rpc-encryption"),
        (
            "spark.network.crypto.enabled false\nspark.authenticate.enableSaslEncryption true",
            "rpc-sasl",
        ),
        (
            "spark.ui.enabled true\nspark.ssl.ui.enabled true",
            "ui-open",
        ),
        (
            "spark.ui.enabled true\nspark.ssl.enabled true\nspark.ui.filters a.B",
            "ui-acls",
        ),
        (
            "spark.ui.enabled true\nspark.ssl.enabled true\nspark.ui.filters \
                a.B\nspark.acls.enable true\nspark.admin.acls a, *",
            "ui-everybody",
        ),
        (
            "spark.ui.enabled true\nspark.ui.filters a.B\nspark.acls.enable true",
            "ui-tls",
        ),
        (
            "spark.ui.enabled true\nspark.ssl.enabled true\nspark.ui.filters \
                a.B\nspark.acls.enable true\nspark.ui.reverseProxy true",
            "ui-proxy",
        ),
        ("spark.extraListeners a.B", "listeners"),
        ("spark.eventLog.enabled true", "event-log"),
        (
            "spark.eventLog.enabled true\nspark.eventLog.dir \
                hdfs://n/l\nspark.coffer.eventLog.trustedDir /",
            "event-log",
        ),
        (
            "spark.eventLog.enabled true\nspark.eventLog.dir \
                /a/../b\nspark.coffer.eventLog.trustedDir /a",
            "event-log",
        ),
        ("spark.history.fs.logDirectory /x", "history-server"),
        ("spark.submit.deployMode cluster", "deploy-mode"),
        ("spark.master.rest.enabled true", "rest-submission"),
        (
            "spark.plugins \
                org.apache.spark.sql.connect.SparkConnectPlugin,\
                org.apache.spark.sql.coffer.CofferPlugin",
            "connect-open",
        ),
        (
            "spark.driver.defaultJavaOptions -agentlib:jdwp=transport=dt_socket",
            "driver-debug-port",
        ),
        ("spark.local.dir /data,/tmp/", "local-disks"),
        ("spark.io.encryption.enabled false", "local-encryption"),
        (
            "spark.storage.cleanupFilesAfterExecutorExit false",
            "local-leftovers",
        ),
        ("spark.hadoop.fs.s3a.secret.key x", "secret-in-settings"),
        (
            "spark.sql.catalog.lake org.apache.iceberg.spark.SparkCatalog",
            "plain-catalog",
        ),
        ("spark.sql.catalogImplementation hive", "plain-catalog"),
        ("spark.sql.sources.default parquet", "plain-by-default"),
    ];
    for (settings, id) in cases {
        assert_eq!(setup.ids(settings), [id], "{settings}");
    }
    // Encryption needs authentication to be any.
    assert_eq!(
        setup.ids("spark.authenticate false"),
        ["rpc-authentication", "rpc-encryption"]
    );
    let inside = "spark.eventLog.enabled true\nspark.eventLog.dir \
        file:/no/such/events\nspark.coffer.eventLog.trustedDir /no/such";
    assert!(setup.ids(inside).is_empty());
    assert!(
        setup
            .ids("spark.network.crypto.cipher x\nspark.ssl.rpc.enabled true")
            .is_empty()
    );
}

#[test]
fn files_and_policy_are_looked_at() {
    let setup = Setup::new();
    let passphrase = setup.write("passphrase", "x");
    let setting = format!("spark.coffer.passphraseFile {}", passphrase.display());
    fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(setup.ids(&setting), ["coffer-passphrase-file"]);
    fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(setup.ids(&setting).is_empty());

    let policy = "unverified_inputs = [\"/data/plain\"]\n[attestation]\naccept = [\"simulated\"]\n\
        [driver]\ntrust_cluster_deploy_mode = true\n[tables.t.columns]\nday = \"plain\"\n\
        [masters]\nfar = \"hadoop-kms:http://kms:9600/kms?key=k&user=u&plain-http=kms\"\n\
        near = \"hadoop-kms:http://localhost:9600/kms?key=k&user=u\"\n";
    setup.write("config/policy.toml", policy);
    let found = [
        "simulated-evidence",
        "kms-plain-http",
        "cluster-mode-trusted",
        "plain-inputs",
        "plain-partitions",
    ];
    assert_eq!(setup.ids(""), found);
    // The application's own config directory comes before the environment's.
    setup.write("other/policy.toml", "unverified_inputs = []\n");
    for key in ["spark.coffer.configDir", "spark.coffer.home"] {
        let other = format!("{key} {}", setup.folder.path().join("other").display());
        assert!(setup.ids(&other).is_empty(), "{key}");
    }
    setup.write("sound.conf", SOUND);
    setup.golden("policy.txt", 1, &["--properties-file", "sound.conf"]);
    let accepted = found.join(",");
    setup.run(
        0,
        &["--properties-file", "sound.conf", "--accept", &accepted],
    );
    setup.write("config/policy.toml", "unverified = 1\n");
    setup.run(4, &["--properties-file", "sound.conf"]);
}

#[test]
fn settings_come_from_where_spark_submit_has_them() {
    let setup = Setup::new();
    let (_, err) = setup.run(2, &[]);
    assert!(
        err.contains("no configuration") && err.contains("hint: "),
        "{err}"
    );
    setup.write("conf/spark-defaults.conf", SOUND);
    let with = |key: &str, folder: PathBuf| setup.command(&[]).env(key, folder).ends();
    let (out, _) = setup.checked(0, with("SPARK_HOME", setup.folder.path().to_owned()));
    assert!(out.contains("sound: "), "{out}");
    setup.checked(0, with("SPARK_CONF_DIR", setup.folder.path().join("conf")));
    let (out, _) = setup.run(
        1,
        &[
            "--properties-file",
            "conf/spark-defaults.conf",
            "--deploy-mode",
            "cluster",
        ],
    );
    assert!(out.starts_with("high    deploy-mode"), "{out}");
    setup.run(2, &["--conf", "nothing"]);
    setup.run(2, &["--master", "local", "--url", "http://127.0.0.1:1"]);
    let (_, err) = setup.run(2, &["--master", "local", "--accept", "no-such"]);
    assert!(err.contains("`no-such`"), "{err}");
    setup.run(5, &["--properties-file", "missing.conf"]);
}

/// A web UI that gives each path's answer, as Spark's does: the connection ends behind it.
fn ui(answers: Vec<(&'static str, &'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            while !lines.next().unwrap().unwrap().is_empty() {}
            let path = first.split(' ').nth(1).unwrap();
            let known = answers.iter().find(|(start, _, _)| path.starts_with(start));
            let (status, body) =
                known.map_or(("404 Not Found", ""), |(_, status, body)| (*status, body));
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: \
                    close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    format!("http://{address}")
}

fn environment(settings: &str) -> String {
    let pairs: Vec<_> = settings
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .collect();
    serde_json::json!({ "runtime": {}, "sparkProperties": pairs, "systemProperties": [] })
        .to_string()
}

#[test]
fn a_running_application_is_asked() {
    let setup = Setup::new();
    let settings = format!(
        "{}spark.ui.enabled true\nspark.ui.port 4041\n",
        SOUND.replace("spark.ui.enabled false\n", "")
    );
    let applications = r#"[{"id":"app-1","name":"old","attempts":[{"completed":true}]},
        {"id":"app-2","name":"n","attempts":[{"completed":false}]}]"#;
    let plans = r#"[{"id":0,"planDescription":"(1) Scan parquet spark_catalog.default.t"},
        {"id":1,"planDescription":"Coffer"}]"#;
    let url = ui(vec![
        (
            "/api/v1/applications/app-2/environment",
            "200 OK",
            environment(&settings),
        ),
        ("/api/v1/applications/app-2/sql", "200 OK", plans.to_owned()),
        ("/api/v1/applications", "200 OK", applications.to_owned()),
    ]);
    let (out, err) = setup.run(1, &["--url", &url]);
    assert!(
        out.contains("reaches port 4041") && out.contains("shown this program 2 queries"),
        "{out}"
    );
    assert!(out.contains("1 of the 2 queries"), "{out}");
    assert!(
        err.contains("3 of ") && err.contains("1 high, 1 medium, 1 low"),
        "{err}"
    );

    let closed = ui(vec![("/", "401 Unauthorized", String::new())]);
    let (_, err) = setup.run(5, &["--url", &closed]);
    assert!(
        err.contains("wants a login") && err.contains("--environment"),
        "{err}"
    );
    let other = ui(vec![("/", "200 OK", "<html>".to_owned())]);
    setup.run(5, &["--url", &other]);
    setup.run(2, &["--url", "https://127.0.0.1"]);
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    setup.run(5, &["--url", &format!("http://{gone}")]);

    setup.write("environment.json", &environment(SOUND.trim_end()));
    setup.run(0, &["--environment", "environment.json"]);
    setup.write("broken.json", "{}");
    setup.run(2, &["--environment", "broken.json"]);
}
