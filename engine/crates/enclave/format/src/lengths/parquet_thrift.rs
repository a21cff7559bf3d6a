//! The structs of `parquet.thrift` that a host may have written: fields by id.

use crate::lengths::walk::{
    Kind::{self, Binary, Bool, Byte, Double, Int, List, Noted, Schema, Struct},
    Note,
};

type Fields = &'static [(i64, Kind)];

pub(super) const FILE_METADATA: Fields = &[
    (1, Int),
    (2, Schema),
    (3, Int),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(COLUMN_ORDER))),
    (8, Struct(ALGORITHM)),
    (9, Binary),
];
pub(super) const SCHEMA_ELEMENT: Fields = &[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Binary),
    (5, Noted(Note::Children)),
    (6, Int),
    (7, Int),
    (8, Int),
    (9, Int),
    (10, Struct(LOGICAL_TYPE)),
];
const LOGICAL_TYPE: Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, Int), (2, Int)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, Int)])),
];
const EMPTY: Kind = Struct(&[]);
const TIME: Kind = Struct(&[
    (1, Bool),
    (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)])),
]);
const KEY_VALUE: Fields = &[(1, Binary), (2, Binary)];
const COLUMN_ORDER: Fields = &[(1, EMPTY)];
const ROW_GROUP: Fields = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, Int),
    (3, Int),
    (4, List(&Struct(&[(1, Int), (2, Bool), (3, Bool)]))),
    (5, Int),
    (6, Int),
    (7, Int),
];
const COLUMN_CHUNK: Fields = &[
    (1, Binary),
    (2, Int),
    (3, Struct(COLUMN_METADATA)),
    (4, Int),
    (5, Int),
    (6, Int),
    (7, Int),
    (
        8,
        Struct(&[(1, EMPTY), (2, Struct(&[(1, List(&Binary)), (2, Binary)]))]),
    ),
    (9, Binary),
];
const COLUMN_METADATA: Fields = &[
    (1, Int),
    (2, List(&Int)),
    (3, List(&Binary)),
    (4, Int),
    (5, Int),
    (6, Int),
    (7, Int),
    (8, List(&Struct(KEY_VALUE))),
    (9, Int),
    (10, Int),
    (11, Int),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, Int), (2, Int), (3, Int)]))),
    (14, Int),
    (15, Int),
    (16, Struct(&[(1, Int), (2, List(&Int)), (3, List(&Int))])),
    (17, Struct(&[(1, Struct(BOX)), (2, List(&Int))])),
];
const BOX: Fields = &[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
];
const STATISTICS: Fields = &[
    (1, Binary),
    (2, Binary),
    (3, Int),
    (4, Int),
    (5, Binary),
    (6, Binary),
    (7, Bool),
    (8, Bool),
    (9, Int),
];
pub(super) const FILE_CRYPTO_METADATA: Fields = &[(1, Struct(ALGORITHM)), (2, Binary)];
const ALGORITHM: Fields = &[(1, AES), (2, AES)];
const AES: Kind = Struct(&[(1, Binary), (2, Binary), (3, Bool)]);
pub(super) const PAGE_HEADER: Fields = &[
    (1, Int),
    (2, Noted(Note::Unpacked)),
    (3, Noted(Note::Packed)),
    (4, Int),
    (
        5,
        Struct(&[
            (1, Int),
            (2, Int),
            (3, Int),
            (4, Int),
            (5, Struct(STATISTICS)),
        ]),
    ),
    (6, EMPTY),
    (7, Struct(&[(1, Noted(Note::Entries)), (2, Int), (3, Bool)])),
    (8, Struct(PAGE_V2)),
];
const PAGE_V2: Fields = &[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Int),
    (5, Int),
    (6, Int),
    (7, Bool),
    (8, Struct(STATISTICS)),
];
pub(super) const OFFSET_INDEX: Fields = &[
    (1, List(&Struct(&[(1, Int), (2, Int), (3, Int)]))),
    (2, List(&Int)),
];
pub(super) const COLUMN_INDEX: Fields = &[
    (1, List(&Bool)),
    (2, List(&Binary)),
    (3, List(&Binary)),
    (4, Int),
    (5, List(&Int)),
    (6, List(&Int)),
    (7, List(&Int)),
];
