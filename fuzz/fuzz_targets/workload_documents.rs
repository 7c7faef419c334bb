//! The state that engines of containers keep: no document stops a capture, and every text in a container is clean.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_core::foreign::is_unsafe;
use magscope_core::node::CgroupName;
use magscope_core::workload::{Engine, Names, container, is_below, machine, pod, unit};
use magscope_probe::workload::{Found, containers, documents, netns_names};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Found::default();
    let of_list = documents::storage(bytes);
    let single = [documents::docker(bytes), documents::oci(bytes, Engine::Podman, "id"), documents::machine(&text)];
    for document in of_list.into_iter().chain(single.into_iter().flatten()) {
        found.cgroups.push(CgroupName { id: 1, path: document.cgroup.clone() });
        found.cgroups.push(CgroupName { id: 2, path: format!("/docker-{}.scope", document.id) });
        found.documents.insert(document.id.clone(), document);
    }
    found.cgroups.push(CgroupName { id: 3, path: text.chars().filter(|c| !is_unsafe(*c)).collect() });
    for part in [container(&text).map(|found| found.root), pod(&text), machine(&text).map(|(_, root)| root)] {
        assert!(part.is_none_or(|root| is_below(&text, root)));
    }
    assert!(unit(&text).is_none_or(|unit| text.contains(unit)));
    let _ = (documents::option(&text, "--data-root"), documents::docker_root(bytes));
    let running = containers(&found);
    let netns = netns_names(&found, &running, &[]);
    let names = Names { containers: running, netns, ..Names::default() };
    let json = serde_json::to_value(&names).expect("it is plain data");
    fn is_clean(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::String(text) => !text.contains(is_unsafe),
            serde_json::Value::Array(all) => all.iter().all(is_clean),
            serde_json::Value::Object(all) => all.values().all(is_clean),
            _ => true,
        }
    }
    assert!(is_clean(&json), "{json}");
});
