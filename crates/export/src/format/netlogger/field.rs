//! Fields of a line, as the grammar has them.

use super::words::Words;
use std::net::SocketAddr;

pub fn addresses(line: &mut Vec<u8>, words: &Words, ends: Option<(SocketAddr, SocketAddr)>) {
    if let Some((from, to)) = ends {
        text(line, words.src_ip, &from.ip().to_string());
        number(line, words.src_port, u64::from(from.port()));
        text(line, words.dst_ip, &to.ip().to_string());
        number(line, words.dst_port, u64::from(to.port()));
    }
}

pub fn number(line: &mut Vec<u8>, name: &[u8], value: u64) {
    line.push(b' ');
    line.extend_from_slice(name);
    line.push(b'=');
    decimal(line, value);
}

pub fn signed(line: &mut Vec<u8>, name: &[u8], value: i64) {
    line.push(b' ');
    line.extend_from_slice(name);
    line.push(b'=');
    if value < 0 {
        line.push(b'-');
    }
    decimal(line, value.unsigned_abs());
}

/// Writes a field, quoted if the grammar requires quotes. Control characters are not allowed and become `?`. So
/// does a final backslash, after which `NetLogger`'s own parser misses the closing quote.
pub fn text(line: &mut Vec<u8>, name: &[u8], value: &str) {
    line.push(b' ');
    line.extend_from_slice(name);
    line.push(b'=');
    let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if !value.is_empty() && value.bytes().all(bare) {
        line.extend_from_slice(value.as_bytes());
        return;
    }
    line.push(b'"');
    for (at, c) in value.char_indices() {
        match c {
            '\\' if at + 1 == value.len() => line.push(b'?'),
            '"' | '\\' => line.extend_from_slice(&[b'\\', c as u8]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => line.push(b'?'),
            c => line.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    line.push(b'"');
}

pub fn decimal(line: &mut Vec<u8>, mut value: u64) {
    let (mut digits, mut at) = ([0_u8; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at..]);
}

/// Writes `many` digits with leading zeros.
pub fn digits(line: &mut Vec<u8>, mut value: u32, many: usize) {
    let at = line.len();
    line.resize(at + many, b'0');
    for digit in line[at..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}
