use super::*;

#[test]
fn ddl_reads_as_spark_does() {
    let columns =
        parse_ddl("a INT, `b, c` decimal(12, 2) NOT NULL, d: timestamp_ntz, e Dec").unwrap();
    assert_eq!(columns[0], ("a".into(), SparkType::Int, true));
    assert_eq!(
        columns[1],
        (
            "b, c".into(),
            SparkType::Decimal {
                precision: 12,
                scale: 2
            },
            false
        )
    );
    assert_eq!(columns[2], ("d".into(), SparkType::TimestampNtz, true));
    assert_eq!(
        columns[3],
        (
            "e".into(),
            SparkType::Decimal {
                precision: 10,
                scale: 0
            },
            true
        )
    );
}

#[test]
fn char_and_varchar_keep_their_lengths() {
    let columns = parse_ddl("a CHAR(5), b character(7), c VarChar( 2147483647 ) NOT NULL").unwrap();
    let kinds: Vec<_> = columns.iter().map(|column| column.1.clone()).collect();
    let long = SparkType::Varchar {
        length: 2_147_483_647,
    };
    assert_eq!(
        kinds,
        [
            SparkType::Char { length: 5 },
            SparkType::Char { length: 7 },
            long
        ]
    );
    assert!(
        kinds
            .iter()
            .all(|kind| kind.of_values() == SparkType::String)
    );
}

#[test]
fn ddl_refuses() {
    for bad in [
        "a",
        "a ARRAY<INT",
        "a ARRAY<>",
        "a ARRAY<INT, INT>",
        "a MAP<INT>",
        "a STRUCT<>",
        "a STRUCT<x>",
        "a STRUCT<x INT NOT NULL>",
        "a ARRAY<CHAR(3)>",
        "a STRUCT<x VARCHAR(3)>",
        "a LIST<INT>",
        "a INT b INT",
        "a INT NOT",
        "a INT COMMENT 'x",
        "a DECIMAL(39,0)",
        "a DECIMAL(3,4)",
        "a INT(3)",
        "`a INT",
        "",
        "a VARCHAR",
        "a CHAR(-1)",
        "a CHAR(2147483648)",
    ] {
        assert!(parse_ddl(bad).is_err(), "{bad}");
    }
}

#[test]
fn names_round_trip() {
    for kind in [
        "boolean",
        "tinyint",
        "decimal(38,10)",
        "timestamp_ntz",
        "string",
        "char(1)",
        "varchar(20)",
    ] {
        assert_eq!(kind.parse::<SparkType>().unwrap().to_string(), kind);
    }
}

#[test]
fn nested_types_round_trip() {
    for kind in [
        "array<int>",
        "struct<a:int,b:string>",
        "map<string,array<double>>",
        "struct<`b, c`:decimal(12,2),``````:binary,`1`:date,_x:timestamp>",
        "array<array<map<date,struct<a:array<tinyint>>>>>",
    ] {
        let parsed: SparkType = kind.parse().unwrap();
        assert_eq!(parsed.to_string(), kind);
        assert_eq!(
            SparkType::from_arrow("c", &parsed.to_arrow()).unwrap(),
            parsed
        );
        let text = serde_json::to_string(&parsed).unwrap();
        assert_eq!(serde_json::from_str::<SparkType>(&text).unwrap(), parsed);
    }
    let columns = parse_ddl(
        "a Struct< x : INT COMMENT 'a, ''b''>', `y``z` Array <Decimal( 5 , 2 )>> not null \
             comment \"c\", m MAP<INT,STRING>",
    );
    let columns = columns.unwrap();
    assert_eq!(
        columns[0].1.to_string(),
        "struct<x:int,`y``z`:array<decimal(5,2)>>"
    );
    assert_eq!((columns[0].2, columns[1].0.as_str()), (false, "m"));
}

#[test]
fn deep_types_are_refused() {
    let text = |levels: usize| format!("{}int{}", "array<".repeat(levels), ">".repeat(levels));
    let deepest: SparkType = text(32).parse().unwrap();
    assert!(SparkType::from_arrow("c", &deepest.to_arrow()).is_ok());
    assert!(
        text(33)
            .parse::<SparkType>()
            .unwrap_err()
            .contains("32 levels")
    );
    assert!(text(100_000).parse::<SparkType>().is_err());
    assert!(SparkType::from_arrow("c", &SparkType::array(deepest).to_arrow()).is_err());
}

#[test]
fn fields_have_names_of_their_own() {
    let unfit = |text: &str| text.parse::<SparkType>().unwrap().unfit_names();
    assert_eq!(unfit("map<int,array<struct<a:int,b:int>>>"), None);
    assert!(unfit("map<int,array<struct<a:int,A:int>>>").is_some());
    assert!(SparkType::structure(vec![]).unfit_names().is_some());
}
