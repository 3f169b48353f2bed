//! Exceptions of `ClickHouse` in responses.

use tremor_pdk::Error;

use crate::exchange::{
    Response, Verdict,
    answer::{excerpt, printable},
};

/// Header of a response with the code of an exception.
const CODE: &str = "x-clickhouse-exception-code";

/// Maximum number of bytes of an exception that a message quotes.
const SHOWN: usize = 500;

/// Codes of exceptions that the values of a row cause.
const BY_ROW: [u32; 25] = [
    6,   // CANNOT_PARSE_TEXT
    25,  // CANNOT_PARSE_ESCAPE_SEQUENCE
    26,  // CANNOT_PARSE_QUOTED_STRING
    27,  // CANNOT_PARSE_INPUT_ASSERTION_FAILED
    33,  // CANNOT_READ_ALL_DATA
    38,  // CANNOT_PARSE_DATE
    41,  // CANNOT_PARSE_DATETIME
    53,  // TYPE_MISMATCH
    69,  // ARGUMENT_OUT_OF_BOUND
    70,  // CANNOT_CONVERT_TYPE
    72,  // CANNOT_PARSE_NUMBER
    117, // INCORRECT_DATA, also for a field without a column
    131, // TOO_LARGE_STRING_SIZE
    130, // CANNOT_READ_ARRAY_FROM_TEXT
    190, // SIZES_OF_ARRAYS_DONT_MATCH
    321, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
    349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
    376, // CANNOT_PARSE_UUID
    407, // DECIMAL_OVERFLOW
    441, // CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING
    467, // CANNOT_PARSE_BOOL
    469, // VIOLATED_CONSTRAINT
    675, // CANNOT_PARSE_IPV4
    676, // CANNOT_PARSE_IPV6
    691, // UNKNOWN_ELEMENT_OF_ENUM
];

/// Returns the code of the exception in a response, if there is one.
fn code(response: &Response<'_>) -> Option<u32> {
    if let Some(code) = response.answer.headers.get(CODE) {
        return code.to_str().ok()?.trim().parse().ok();
    }
    // An exception after the head of a response was sent is a part of the body.
    let text = response.answer.body.trim_ascii_start().strip_prefix(b"Code: ")?;
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..length]).ok()?.parse().ok()
}

/// Returns the verdict on a request because of the exception in its response, or `None` if there is no exception.
pub(crate) fn verdict(response: &Response<'_>) -> Option<Verdict> {
    let code = code(response)?;
    let Response { url, secrets, answer, .. } = response;
    let status = answer.status.as_u16();
    let text = excerpt(&secrets.redacted(&answer.body, SHOWN), SHOWN);
    let text = if text.is_empty() { printable(format!("code {code}").as_bytes()) } else { text };
    let message = format!("`{url}` answered with {status}: {text}");
    let with = |remedy: &str| format!("{message}; {remedy}");
    Some(match code {
        code if BY_ROW.contains(&code) => Verdict::Contents(Error::bad_data(message)),
        // REQUIRED_PASSWORD, UNKNOWN_USER, WRONG_PASSWORD, AUTHENTICATION_FAILED
        192..=194 | 516 => {
            Verdict::Again(Error::authentication(with("check `user` and `password`")))
        }
        // READONLY, ACCESS_DENIED
        164 | 497 => Verdict::Again(Error::authentication(with(
            "check the privileges of `user` for the table",
        ))),
        // UNKNOWN_TABLE, UNKNOWN_DATABASE
        60 | 81 => Verdict::Again(Error::configuration(with("check `table` and `database`"))),
        // UNKNOWN_SETTING
        115 => Verdict::Again(Error::configuration(with("check `settings`"))),
        // TIMEOUT_EXCEEDED, SOCKET_TIMEOUT
        159 | 209 => Verdict::Again(Error::timeout(message)),
        // Other codes, such as MEMORY_LIMIT_EXCEEDED, TOO_MANY_PARTS, NOT_ENOUGH_SPACE and TABLE_IS_READ_ONLY.
        _ => Verdict::Again(Error::full(message)),
    })
}
