//! Functions of programs and libraries: where a symbol is in its file.

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::fs::File;
use std::path::Path;

use super::near::near;

/// File offset of a function, bytes.
///
/// # Errors
/// The reason why the function is missing, with similar names.
pub fn offset(path: &Path, symbol: &str) -> Result<u64, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| format!("cannot open {shown}: {e}"))?;
    let cache = ReadCache::new(file);
    let program = object::File::parse(&cache).map_err(|e| format!("{shown} is no program or library: {e}"))?;
    let functions = || {
        let all = program.symbols().chain(program.dynamic_symbols());
        all.filter(|s| s.kind() == SymbolKind::Text && s.is_definition() && s.address() != 0)
    };
    let bare = |name: &'_ str| name.split('@').next().unwrap_or_default().to_owned();
    let Some(found) = functions().find(|s| s.name().is_ok_and(|name| name == symbol || bare(name) == symbol))
    else {
        let names: Vec<String> = functions().filter_map(|s| s.name().ok().map(bare)).collect();
        return Err(format!(
            "{shown} has no function `{symbol}`{}",
            near(symbol, names.iter().map(String::as_str))
        ));
    };
    let address = found.address();
    let segment = program.segments().find(|s| address >= s.address() && address - s.address() < s.size());
    let segment = segment.ok_or_else(|| format!("{shown} does not load its function `{symbol}`"))?;
    Ok(address - segment.address() + segment.file_range().0)
}
