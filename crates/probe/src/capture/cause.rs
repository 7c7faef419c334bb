//! Which program libbpf and the verifier refused, and why, from what they print.

/// The program of the first message that names one as failed.
pub(super) fn program(messages: &str) -> Option<&str> {
    let named = |line: &str| -> Option<usize> { line.find("prog '").map(|at| at + "prog '".len()) };
    let failed =
        ["failed to load", "load failed", "failed to find", "failed to relocate", "relo #", "missing BTF"];
    let lines = messages.lines().filter(|line| failed.iter().any(|words| line.contains(words)));
    lines.rev().find_map(|line| line[named(line)?..].split('\'').next())
}

/// Why, in words for a person: a field, type, helper or function that the kernel lacks where that is the cause, else the
/// verifier's last line. Without one, the kernel's error, or what libbpf says.
pub(crate) fn words(messages: &str) -> String {
    let missing = |line: &str| -> Option<String> {
        if let Some(at) = line.find("failed to resolve CO-RE relocation <") {
            // `<byte_off> [67] struct kmem_cache.node (0:2 @ offset 24)`
            let what = line[at..].split("] ").nth(1)?.split(" (").next()?;
            return Some(format!("this kernel has no `{what}` as far as its BTF shows"));
        }
        if let Some(at) = line.find("unknown func ") {
            let what = line[at + "unknown func ".len()..].split(['#', ' ']).next()?;
            return Some(format!("this kernel has no helper {what}"));
        }
        if let Some(at) = line.find("failed to find kernel BTF type ID of '") {
            let what = line[at..].split('\'').nth(1)?;
            return Some(format!("this kernel has no `{what}` to attach to"));
        }
        None
    };
    if let Some(words) = messages.lines().find_map(missing) {
        return words;
    }
    let from_libbpf = |line: &&str| line.starts_with("libbpf:") || line.starts_with("-- ");
    let statistics = |line: &&str| line.starts_with("processed ") || line.starts_with("verification time");
    let log = messages.lines().map(str::trim).filter(|line| !line.is_empty());
    let last =
        log.clone().rfind(|line| !from_libbpf(line) && !statistics(line) && !line.contains("stack depth"));
    if let Some(cause) = last {
        return format!("its verifier says `{cause}`");
    }
    let error = log.clone().find_map(|line| line.split_once(": BPF program load failed: "));
    if let Some((_, error)) = error {
        return format!("the kernel refuses it: {error}");
    }
    let quoted = |line: &str| format!("libbpf says `{}`", line.trim_start_matches("libbpf: "));
    log.clone().next_back().map_or_else(|| "the kernel gave no reason".to_owned(), quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELOCATION: &str = "libbpf: prog 'find_pages': BPF program load failed: -EINVAL\n\
        libbpf: prog 'find_pages': -- BEGIN PROG LOAD LOG --\n0: R1=ctx() R10=fp0\n<invalid CO-RE relocation>\n\
        failed to resolve CO-RE relocation <byte_off> [67] struct kmem_cache.node (0:2 @ offset 24)\n\
        processed 2 insns (limit 1000000) max_states_per_insn 0\n-- END PROG LOAD LOG --\n\
        libbpf: prog 'find_pages': failed to load: -EINVAL\nlibbpf: failed to load object ''\n";

    #[test]
    fn a_missing_field_is_named_with_its_program() {
        assert_eq!(program(RELOCATION), Some("find_pages"));
        assert_eq!(words(RELOCATION), "this kernel has no `struct kmem_cache.node` as far as its BTF shows");
    }

    #[test]
    fn a_missing_helper_and_a_missing_tracepoint_are_named() {
        let helper = "libbpf: prog 'task_wake': BPF program load failed: Invalid argument\n\
            libbpf: prog 'task_wake': -- BEGIN PROG LOAD LOG --\n12: (85) call bpf_loop#181\nunknown func bpf_loop#181\n\
            -- END PROG LOAD LOG --\nlibbpf: prog 'task_wake': failed to load: -22\n";
        assert_eq!(
            (program(helper), words(helper).as_str()),
            (Some("task_wake"), "this kernel has no helper bpf_loop")
        );
        let target = "libbpf: prog 'sock_ready': failed to find kernel BTF type ID of 'sk_data_ready': -ESRCH\n\
            libbpf: prog 'sock_ready': failed to prepare load attributes: -3\n";
        assert_eq!(program(target), Some("sock_ready"));
        assert_eq!(words(target), "this kernel has no `sk_data_ready` to attach to");
    }

    #[test]
    fn other_causes_are_the_verifiers_last_line() {
        let other = "libbpf: prog 'app_copy': BPF program load failed: Invalid argument\n\
            libbpf: prog 'app_copy': -- BEGIN PROG LOAD LOG --\n\
            number of funcs in func_info doesn't match number of subprogs\n-- END PROG LOAD LOG --\n\
            libbpf: prog 'app_copy': failed to load: -22\n";
        assert_eq!(program(other), Some("app_copy"));
        assert_eq!(
            words(other),
            "its verifier says `number of funcs in func_info doesn't match number of subprogs`"
        );
        assert_eq!((program("libbpf: something else"), program("")), (None, None));
        assert_eq!(words(""), "the kernel gave no reason");
    }

    #[test]
    fn without_a_verifiers_line_the_kernels_error_is_the_cause() {
        let refused = "libbpf: prog 'find_functions': BPF program load failed: Invalid argument\n\
            libbpf: prog 'find_functions': failed to load: -22\nlibbpf: failed to load object '7fe1246702c0-1604d8'\n";
        assert_eq!(
            (program(refused), words(refused).as_str()),
            (Some("find_functions"), "the kernel refuses it: Invalid argument")
        );
        assert_eq!(words("libbpf: Error in a map\n"), "libbpf says `Error in a map`");
    }
}
