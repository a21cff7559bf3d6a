use super::*;

fn parse(text: &str) -> Result<MasterUri, UriError> {
    MasterUri::parse(text, Path::new("/home/owner"))
}

#[test]
fn a_hadoop_kms_with_servers_and_options() {
    let uri = parse(
        "hadoop-kms:https://a:9600,[::1]:9601/kms/\
         ?key=pay.roll&user=co%20ffer&ca=ca.pem&timeout=5&cache=0",
    );
    let MasterUri::Outside(OutsideUri::HadoopKms(uri)) = uri.unwrap() else {
        panic!()
    };
    assert_eq!(
        uri.servers,
        ["https://a:9600/kms", "https://[::1]:9601/kms"]
    );
    assert_eq!(
        (uri.key.as_str(), uri.user.as_str()),
        ("pay.roll", "co ffer")
    );
    assert_eq!(uri.ca.as_deref(), Some(Path::new("/home/owner/ca.pem")));
    assert_eq!(
        (uri.limits.timeout.as_secs(), uri.limits.cache.as_secs()),
        (5, 0)
    );
}

#[test]
fn an_aws_key_by_alias_and_by_arn() {
    let uri = parse("aws-kms:alias/payroll?region=eu-west-1&endpoint=http://127.0.0.1:5000");
    let MasterUri::Outside(OutsideUri::AwsKms(uri)) = uri.unwrap() else {
        panic!()
    };
    assert_eq!(uri.key, "alias/payroll");
    assert_eq!(uri.region.as_deref(), Some("eu-west-1"));
    assert_eq!(uri.endpoint.as_deref(), Some("http://127.0.0.1:5000"));
    assert_eq!(
        (uri.limits.timeout.as_secs(), uri.limits.cache.as_secs()),
        (20, 300)
    );
    let arn = "aws-kms:arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    let MasterUri::Outside(OutsideUri::AwsKms(uri)) = parse(arn).unwrap() else {
        panic!()
    };
    assert_eq!(Some(uri.key.as_str()), arn.strip_prefix("aws-kms:"));
}

#[test]
fn a_token_by_rfc_7512() {
    let uri = parse(
        "pkcs11:token=My%20token;object=payroll;id=%01%ff;type=secret-key\
         ?module-path=/usr/lib/hsm.so&pin-source=file:///run/pin&mechanism=aes-key-wrap-pad",
    );
    let MasterUri::Outside(OutsideUri::Pkcs11(uri)) = uri.unwrap() else {
        panic!()
    };
    assert_eq!(
        (uri.token.as_deref(), uri.object.as_deref()),
        (Some("My token"), Some("payroll"))
    );
    assert_eq!(uri.id.as_deref(), Some([1, 255].as_slice()));
    assert_eq!(uri.pin, Pin::File("/run/pin".into()));
    assert_eq!(uri.mechanism, WrapMechanism::AesKeyWrapPad);
    let uri = parse("pkcs11:token=t;object=o?module-path=hsm.so&pin-source=env:PIN");
    let MasterUri::Outside(OutsideUri::Pkcs11(uri)) = uri.unwrap() else {
        panic!()
    };
    assert_eq!(uri.pin, Pin::Env("PIN".into()));
    assert_eq!(uri.module, Path::new("/home/owner/hsm.so"));
}

#[test]
fn what_is_wrong_is_said() {
    let wrong = |text: &str| parse(text).unwrap_err().to_string();
    for (text, words) in [
        ("payroll", "no scheme"),
        ("vault:x", "no kind of master \"vault\""),
        ("keyring:", "\"\" is no master's name"),
        ("keyring:no good", "is no master's name"),
        ("hadoop-kms:https://a:9600/kms?user=u", "`key` is missing"),
        ("hadoop-kms:https://a:9600/kms?key=k", "`user` is missing"),
        (
            "hadoop-kms:https://a:9600/kms?key=k@1&user=u",
            "\"k@1\" is no key",
        ),
        (
            "hadoop-kms:https://a:9600/kms?key=k&key=l&user=u",
            "`key` is given twice",
        ),
        (
            "hadoop-kms:https://a:9600/kms?key=k&user=u&color=red",
            "no option `color`",
        ),
        (
            "hadoop-kms:https://a:9600/kms?key=k&user=u&timeout=0",
            "\"0\" is no timeout",
        ),
        (
            "hadoop-kms:kms://http@a:9600/kms?key=k&user=u",
            "is no address",
        ),
        (
            "hadoop-kms:http://a:0/kms?key=k&user=u",
            "is no list of servers",
        ),
        (
            "hadoop-kms:http://a b/kms?key=k&user=u",
            "is no list of servers",
        ),
        ("hadoop-kms:http://a/../kms%00?key=k&user=u", "is no path"),
        (
            "hadoop-kms:https://a:1/kms?key=%zz&user=u",
            "percent-encoded",
        ),
        ("aws-kms:", "is no key id, ARN or alias"),
        ("aws-kms:alias/p?endpoint=http://a,b", "is no endpoint"),
        ("aws-kms:alias/p?region=eu.west", "is no region"),
        (
            "pkcs11:token=t?module-path=m&pin-source=p",
            "`object` is missing",
        ),
        (
            "pkcs11:object=o?module-path=m&pin-source=p",
            "`token` is missing",
        ),
        (
            "pkcs11:token=t;object=o?pin-source=p",
            "`module-path` is missing",
        ),
        (
            "pkcs11:token=t;object=o?module-path=m",
            "`pin-source` is missing",
        ),
        (
            "pkcs11:token=t;object=o;type=private?module-path=m&pin-source=p",
            "is no type",
        ),
        (
            "pkcs11:token=t;object=o?module-path=m&pin-source=p&mechanism=rot13",
            "is no mechanism",
        ),
    ] {
        let message = wrong(text);
        assert!(message.contains(words), "{text}: {message}");
        assert!(!parse(text).unwrap_err().hint().is_empty());
    }
}

#[test]
fn plain_http_is_for_this_machine_and_for_servers_that_are_named() {
    for server in [
        "127.0.0.1:9600",
        "127.9.9.9",
        "localhost:9600",
        "LOCALHOST",
        "[::1]:9600",
        "[::ffff:127.0.0.1]",
    ] {
        parse(&format!("hadoop-kms:http://{server}/kms?key=k&user=u")).expect(server);
        parse(&format!("aws-kms:alias/p?endpoint=http://{server}")).expect(server);
    }
    for server in [
        "kms:9600",
        "10.0.0.1",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "[fe80::1]",
        "0.0.0.0",
        "2130706433",
    ] {
        for text in [
            format!("hadoop-kms:http://{server}/kms?key=k&user=u"),
            format!("hadoop-kms:http://localhost,{server}/kms?key=k&user=u"),
            format!("hadoop-kms:http://{server}/kms?key=k&user=u&plain-http=other"),
            format!("aws-kms:alias/p?endpoint=http://{server}"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(matches!(error, UriError::PlainHttp(_)), "{text}: {error}");
            assert!(error.hint().contains("plain-http="), "{text}");
        }
    }
    let named =
        parse("hadoop-kms:http://KMS1:9600,kms2/kms?key=k&user=u&plain-http=kms1,kms2").unwrap();
    let MasterUri::Outside(OutsideUri::HadoopKms(named)) = named else {
        panic!()
    };
    assert_eq!(named.plain_http, ["kms1", "kms2"]);
    parse("aws-kms:alias/p?endpoint=http://kms:1&plain-http=kms").unwrap();
    // Leave for what is not asked so, is for nothing.
    for text in [
        "hadoop-kms:https://kms/kms?key=k&user=u&plain-http=kms",
        "aws-kms:alias/p?plain-http=kms",
    ] {
        assert!(
            matches!(parse(text), Err(UriError::BadValue { .. })),
            "{text}"
        );
    }
}

#[test]
fn secrets_are_refused_and_not_repeated() {
    for text in [
        "pkcs11:token=t;object=o?module-path=m&pin-value=hunter2",
        "hadoop-kms:http://user:hunter2@a:9600/kms?key=k&user=u",
        "aws-kms:alias/p?secret=hunter2",
    ] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, UriError::Secret(_)), "{text}");
        assert!(!format!("{error} {error:?} {}", error.hint()).contains("hunter2"));
    }
}
