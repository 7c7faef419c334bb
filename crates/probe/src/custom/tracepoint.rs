//! Tracepoints as tracefs describes them: their fields, and what others there are.

use super::near::near;
use magscope_core::custom::ValueKind;
use std::fs;
use std::path::PathBuf;

/// A field of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// Field name.
    pub name: String,
    /// C declaration.
    pub declared: String,
    /// Offset, bytes.
    pub offset: i32,
    /// Size, bytes.
    pub bytes: u8,
    /// Meaning of the number.
    pub kind: ValueKind,
}

fn events() -> Option<PathBuf> {
    let places = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    places.into_iter().map(PathBuf::from).find(|dir| dir.join("sched").is_dir())
}

fn names(dir: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The fields of `category:name`.
///
/// # Errors
/// Why they cannot be read, with names that are near.
pub fn fields(target: &str) -> Result<Vec<RecordField>, String> {
    let (category, name) = target.split_once(':').unwrap_or((target, ""));
    let events =
        events().ok_or("no tracefs can be read; mount it: `mount -t tracefs none /sys/kernel/tracing`")?;
    if let Ok(text) = fs::read_to_string(events.join(category).join(name).join("format")) {
        return Ok(parse(&text));
    }
    let categories = names(events.clone());
    if !categories.iter().any(|existing| existing == category) {
        let near = near(category, categories.iter().map(String::as_str));
        return Err(format!("the kernel has no tracepoints of the category `{category}`{near}"));
    }
    let others = names(events.join(category));
    let near = near(name, others.iter().map(String::as_str));
    Err(format!("the kernel has no tracepoint `{name}` in `{category}`{near}"))
}

/// Lines as `field:unsigned short protocol; offset:24; size:2; signed:0;`. Fields that are no number are left out.
fn parse(text: &str) -> Vec<RecordField> {
    text.lines().filter_map(|line| line.trim().strip_prefix("field:")).filter_map(field).collect()
}

fn field(line: &str) -> Option<RecordField> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<i32>().ok();
    let (offset, bytes, signed) = (number("offset:")?, number("size:")?, number("signed:")?);
    let name = declared.rsplit([' ', '*']).next()?;
    let is_number = matches!(bytes, 1 | 2 | 4 | 8) && !name.ends_with(']') && !declared.contains("__data_loc");
    let kind = match (declared.contains('*'), signed) {
        (true, _) => ValueKind::Address,
        (_, 0) => ValueKind::Unsigned,
        _ => ValueKind::Signed,
    };
    let (name, declared) = (name.to_owned(), declared.to_owned());
    (is_number && (0..1 << 16).contains(&offset)).then_some(RecordField {
        name,
        declared,
        offset,
        bytes: bytes as u8,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_fields_and_strings_are_not() {
        let text = "name: kfree_skb\nID: 1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:int  rc;\toffset:16;\tsize:4;\tsigned:1;\n\
            \tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;\n\
            \tfield:__data_loc char[] name;\toffset:36;\tsize:4;\tsigned:0;\n\tfield:nonsense\n\nprint fmt: \"x\"";
        let found = parse(text);
        let reported: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.offset, f.bytes, f.kind)).collect();
        assert_eq!(
            reported,
            [
                ("common_type", 0, 2, ValueKind::Unsigned),
                ("skbaddr", 8, 8, ValueKind::Address),
                ("rc", 16, 4, ValueKind::Signed),
            ]
        );
    }
}
