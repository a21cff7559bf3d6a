//! How the config directory is named: by option, by variable, and by the names that these had.

use crate::common::{Ends, Owner, failed};

/// What `coffer keys list` warns of, with these variables; it must succeed.
fn warnings(owner: &Owner, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let done = owner
        .command("nowhere")
        .env_remove("COFFER_CONFIG_DIR")
        .envs(variables.iter().copied())
        .args(arguments)
        .args(["keys", "list"])
        .ends();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(
        done.status.success(),
        "{arguments:?} {variables:?}: {stderr}"
    );
    stderr
}

#[test]
fn each_name_works_and_old_ones_warn_once() {
    let owner = Owner::new();
    let folder = owner.path("config");
    let folder = folder.to_str().unwrap();
    let option = "warning: --home is an old name: use --config-dir instead\n";
    let variable = "warning: COFFER_HOME is an old name: set COFFER_CONFIG_DIR instead\n";
    let now = ("COFFER_CONFIG_DIR", folder);
    let old = ("COFFER_HOME", folder);
    let elsewhere = ("COFFER_HOME", "/none");
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    let cases: &[Case<'_>] = &[
        (&["--config-dir", folder], &[], ""),
        (&["--config-dir", folder], &[elsewhere], ""),
        (&["--home", folder], &[], option),
        (&["--home", folder], &[elsewhere], option),
        (&[], &[now], ""),
        (&[], &[old], variable),
        (&[], &[old, now], variable),
    ];
    for (arguments, variables, expected) in cases {
        let got = warnings(&owner, arguments, variables);
        assert_eq!(got, *expected, "{arguments:?} {variables:?}");
    }
}

#[test]
fn two_folders_by_two_names_are_refused() {
    let owner = Owner::new();
    let arguments = ["keys", "list"];
    let both = owner
        .command("config")
        .env("COFFER_HOME", owner.path("other"))
        .args(arguments)
        .ends();
    let stderr = failed(both, 2, &arguments);
    assert!(stderr.contains("name two folders") && stderr.contains("hint: unset COFFER_HOME"));
    owner.fails(2, &["--home", "a", "--config-dir", "b", "keys", "list"]);
}
