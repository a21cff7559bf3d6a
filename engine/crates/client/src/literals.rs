//! Literals of a query as ciphertexts of the columns they are compared with.

use coffer_expr::scalar;
use coffer_proto::{
    plan::{Literal, literal::Value},
    wire::{
        EncryptLiterals, LiteralsEncrypted,
        literals_encrypted::{Ciphertext, ciphertext::Kind},
    },
};
use coffer_schemes::{SchemeError, Side};
use coffer_table::{Codec, Error, Form};
use datafusion_common::ScalarValue;

use crate::{ClientError, Service, tables::data_type};

impl Service {
    pub(crate) fn encrypt_literals(&self, request: &EncryptLiterals) -> Result<LiteralsEncrypted, ClientError> {
        let table = self.table(request.handle)?;
        self.may_read(&table, [request.stored.as_str()])?;
        let (codec, at) = table.codec_of(&request.stored)?;
        let ciphertexts = request
            .literals
            .iter()
            .map(|literal| encrypt(&codec, at, literal))
            .collect::<Result<_, ClientError>>()?;
        Ok(LiteralsEncrypted { ciphertexts })
    }
}

fn encrypt(codec: &Codec, at: usize, literal: &Literal) -> Result<Ciphertext, ClientError> {
    let stored = codec
        .stored()
        .get(at)
        .ok_or(ClientError::Malformed("ENCRYPT_LITERALS"))?;
    let name = stored.name();
    let scalar = scalar(literal).map_err(|source| ClientError::Literal {
        stored: name.clone(),
        reason: source.to_string(),
    })?;
    let refused = |reason: &str| ClientError::Literal {
        stored: name.clone(),
        reason: reason.to_owned(),
    };
    let column = codec.column_of(stored).ok_or_else(|| refused("it holds no column"))?;
    if scalar.data_type() != column.kind.to_arrow() {
        return Err(refused("the literal has another type than the column"));
    }
    if scalar.is_null() {
        return Err(refused("NULL is not encrypted"));
    }
    match stored.form {
        Form::Plain => return Ok(of(Kind::Literal(literal.clone()), false)),
        Form::Det | Form::Ope | Form::Ore => {}
        _ => return Err(refused("its values depend on where they are")),
    }
    // A stored value may have the same leading bytes and then more.
    let prefix = stored.prefix.and_then(|prefix| usize::try_from(prefix).ok());
    let cut = prefix.is_some_and(|prefix| length(&scalar) >= prefix);
    let array = scalar.to_array().map_err(ClientError::Finish)?;
    let encrypted = match codec.encrypt(at, &array) {
        Ok(encrypted) => encrypted,
        Err(Error::Scheme {
            source: SchemeError::OutsideDomain { side, .. },
            ..
        }) => {
            let side = match side {
                Side::Below => Kind::Below(true),
                Side::Above => Kind::Above(true),
            };
            return Ok(of(side, false));
        }
        Err(error) => return Err(error.into()),
    };
    let value = match ScalarValue::try_from_array(&encrypted, 0).map_err(ClientError::Finish)? {
        ScalarValue::Int64(Some(value)) => Value::Int(value),
        ScalarValue::Binary(Some(value)) => Value::Binary(value),
        _ => return Err(refused("its ciphertexts are of no type that a literal has")),
    };
    let literal = Literal {
        r#type: Some(data_type(stored.kind)),
        value: Some(value),
    };
    Ok(of(Kind::Literal(literal), cut))
}

fn of(kind: Kind, cut: bool) -> Ciphertext {
    Ciphertext { kind: Some(kind), cut }
}

/// Bytes of a text.
fn length(scalar: &ScalarValue) -> usize {
    match scalar {
        ScalarValue::Utf8(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes)) => bytes.len(),
        _ => 0,
    }
}
