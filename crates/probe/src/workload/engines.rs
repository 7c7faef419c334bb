//! Where engines keep their state, and its reading: files and processes, bounded in number and size.
//!
//! Nothing asks an engine itself. What cannot be read is an engine without names, with the reason.

use super::documents::{self, Document};
use magscope_core::workload::Engine;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest document that is read, bytes.
const LARGEST: u64 = 1 << 20;
/// Largest list of containers that is read, bytes.
const LARGEST_LIST: u64 = 16 << 20;
/// Containers of one engine that are read, at most.
const MOST_CONTAINERS: usize = 4_096;
/// Directories of one engine, at most.
const MOST_ROOTS: usize = 64;
/// Longest command line that is read, bytes.
const LONGEST_LINE: u64 = 16 << 10;

/// A place of an engine's state, and what it gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineState {
    /// The engine.
    pub engine: Engine,
    /// The directory or file.
    pub place: PathBuf,
    /// Number of its containers, running or not; or why it could not be read.
    pub found: Result<usize, String>,
}

/// The documents of all engines of a host.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// By id.
    pub by_id: BTreeMap<String, Document>,
    /// The places that exist.
    pub states: Vec<EngineState>,
}

impl Documents {
    /// Reads the state of every engine.
    pub fn read() -> Self {
        let daemons = Daemons::running();
        let mut documents = Documents::default();
        for root in docker_roots(&daemons) {
            documents.docker(&root);
        }
        for state in
            roots("/run/containerd", daemons.containerd.iter().map(|line| documents::option(line, "--state")))
        {
            documents.containerd(&state);
        }
        // The usual store comes before command lines, which any user can write.
        let stores = daemons.conmon.iter().map(|line| store_of(documents::option(line, "-b")?));
        for (at, store) in roots("/var/lib/containers/storage", stores).iter().enumerate() {
            documents.storage(store);
            if at == 0 {
                documents.conmon(&daemons.conmon);
            }
        }
        documents.machines(Path::new("/run/systemd/machines"));
        documents
    }

    fn add(&mut self, document: Document) {
        if let Some(present) = self.by_id.get_mut(&document.id) {
            present.complete(document);
        } else {
            self.by_id.insert(document.id.clone(), document);
        }
    }

    fn add_all(&mut self, documents: Vec<Document>) -> usize {
        let number = documents.len();
        for document in documents {
            self.add(document);
        }
        number
    }

    /// Notes a place. A place that is not there is no state.
    fn state(&mut self, engine: Engine, place: &Path, found: io::Result<usize>) {
        let found = match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            found => found.map_err(|error| error.to_string()),
        };
        self.states.push(EngineState { engine, place: place.to_owned(), found });
    }

    /// `ROOT/containers/ID/config.v2.json`
    fn docker(&mut self, root: &Path) {
        let place = root.join("containers");
        let found = entries(&place).map(|dirs| {
            let documents = dirs
                .iter()
                .filter_map(|dir| documents::docker(&read(&dir.join("config.v2.json"), LARGEST).ok()?));
            let documents: Vec<Document> = documents.collect();
            self.add_all(documents)
        });
        self.state(Engine::Docker, &place, found);
    }

    /// `STATE/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json`. Docker's own namespace is Docker's.
    fn containerd(&mut self, state: &Path) {
        let place = state.join("io.containerd.runtime.v2.task");
        let found = entries(&place).map(|namespaces| {
            let mut number = 0;
            for namespace in namespaces.iter().filter(|namespace| !namespace.ends_with("moby")) {
                for dir in entries(namespace).unwrap_or_default() {
                    let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let bytes = read(&dir.join("config.json"), LARGEST);
                    if let Some(document) =
                        bytes.ok().and_then(|bytes| documents::oci(&bytes, Engine::Containerd, &id))
                    {
                        // An id is unique in its namespace of containerd, a cgroup on the host.
                        let key =
                            if self.by_id.contains_key(&id) { format!("{id} {}", document.cgroup) } else { id };
                        self.by_id.insert(key, document);
                        number += 1;
                    }
                }
            }
            number
        });
        self.state(Engine::Containerd, &place, found);
    }

    /// The command lines of Podman's and CRI-O's monitors: id, name and directory of a container.
    fn conmon(&mut self, lines: &[String]) {
        for line in lines.iter().take(MOST_CONTAINERS) {
            let word = |short, long| documents::word(line, short).or_else(|| documents::word(line, long));
            let (Some(id), Some(name)) = (word("-c", "--cid"), word("-n", "--name")) else { continue };
            let bundle = word("-b", "--bundle").filter(|bundle| bundle.starts_with('/'));
            let bytes = bundle.map(|bundle| read(&Path::new(bundle).join("config.json"), LARGEST));
            let document =
                bytes.and_then(Result::ok).and_then(|bytes| documents::oci(&bytes, Engine::Podman, id));
            let named = documents::named(Engine::Podman, id, name);
            let mut document = document.unwrap_or_else(|| named.clone());
            document.complete(named);
            // The cgroup has the id in its name.
            document.cgroup.clear();
            self.add(document);
        }
    }

    /// `STORE/DRIVER-containers/containers.json`
    fn storage(&mut self, store: &Path) {
        let found = entries(store).map(|dirs| {
            let mut number = 0;
            for dir in dirs.iter().filter(|dir| dir.to_string_lossy().ends_with("-containers")) {
                let list = read(&dir.join("containers.json"), LARGEST_LIST).unwrap_or_default();
                for document in documents::storage(&list) {
                    number += 1;
                    self.add(document);
                }
            }
            number
        });
        self.state(Engine::Podman, store, found);
    }

    fn machines(&mut self, place: &Path) {
        let found = entries(place).map(|files| {
            // Links by unit, `unit:machine-….scope`, lead to the same files.
            let files = files.iter().filter(|file| fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file()));
            let texts = files.filter_map(|file| read(file, LARGEST).ok());
            let documents: Vec<Document> =
                texts.filter_map(|text| documents::machine(&String::from_utf8_lossy(&text))).collect();
            self.add_all(documents)
        });
        self.state(Engine::Machined, place, found);
    }
}

/// Command lines of engines that run.
#[derive(Debug, Default)]
struct Daemons {
    docker: Vec<String>,
    containerd: Vec<String>,
    conmon: Vec<String>,
}

impl Daemons {
    fn running() -> Self {
        let mut daemons = Daemons::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let comm = read(&entry.path().join("comm"), 64).unwrap_or_default();
            let lines = match comm.trim_ascii_end() {
                b"dockerd" => &mut daemons.docker,
                b"containerd" => &mut daemons.containerd,
                b"conmon" => &mut daemons.conmon,
                _ => continue,
            };
            if let Ok(line) = read(&entry.path().join("cmdline"), LONGEST_LINE)
                && lines.len() < MOST_CONTAINERS
            {
                lines.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        daemons
    }
}

/// The usual directory, then those in command lines, each once. What an earlier one says of a container stays: any user
/// can start a process with the name of an engine.
fn roots<'l>(standard: &str, named: impl Iterator<Item = Option<&'l str>>) -> Vec<PathBuf> {
    let mut roots = vec![PathBuf::from(standard)];
    for root in named.flatten().map(PathBuf::from) {
        if roots.len() < MOST_ROOTS && !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

fn docker_roots(daemons: &Daemons) -> Vec<PathBuf> {
    let options = daemons.docker.iter().flat_map(|line| {
        ["--data-root", "-g", "--graph"].into_iter().map(move |name| documents::option(line, name))
    });
    let mut found = roots("/var/lib/docker", options);
    let files = daemons.docker.iter().filter_map(|line| documents::option(line, "--config-file"));
    for file in std::iter::once("/etc/docker/daemon.json").chain(files).take(MOST_ROOTS) {
        let root = read(Path::new(file), LARGEST).ok().and_then(|bytes| documents::docker_root(&bytes));
        found.extend(
            root.map(PathBuf::from).filter(|root| !found.contains(root)).into_iter().collect::<Vec<_>>(),
        );
    }
    found
}

/// The store above a container's directory: `STORE/vfs-containers/ID/userdata`.
fn store_of(bundle: &str) -> Option<&str> {
    let driver = Path::new(bundle).parent()?.parent()?;
    driver.to_str().filter(|driver| driver.ends_with("-containers"))?;
    driver.parent()?.to_str()
}

/// The entries of a directory, at most so many.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(fs::read_dir(dir)?.flatten().take(MOST_CONTAINERS).map(|entry| entry.path()).collect())
}

/// A regular file's content. An error beyond `most` bytes; a device or a pipe could block.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_docker_gives_its_containers_and_one_that_is_missing_is_no_state() {
        let dir = std::env::temp_dir().join(format!("magscope-engines-{}", std::process::id()));
        let container = dir.join("containers/4fa2");
        fs::create_dir_all(&container).expect("a folder");
        fs::write(container.join("config.v2.json"), br#"{"ID":"4fa2","Name":"/web"}"#).expect("written");
        fs::create_dir_all(dir.join("containers/half")).expect("a folder");
        let mut documents = Documents::default();
        documents.docker(&dir);
        documents.docker(Path::new("/nowhere"));
        documents.storage(Path::new("/dev/null"));
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(documents.by_id["4fa2"].name, "web");
        assert_eq!(documents.states[0].found, Ok(1));
        assert!(documents.states.len() == 2 && documents.states[1].found.is_err(), "{:?}", documents.states);
    }

    #[test]
    fn a_pipe_or_a_large_file_is_not_read() {
        assert!(read(Path::new("/dev/zero"), 10).is_err());
        assert!(read(Path::new("/proc/self/maps"), 10).is_err());
        assert!(!read(Path::new("/proc/self/comm"), 64).expect("read").is_empty());
    }

    #[test]
    fn the_store_is_above_a_bundle() {
        assert_eq!(store_of("/srv/c/vfs-containers/4fa2/userdata"), Some("/srv/c"));
        assert_eq!(store_of("/run/4fa2"), None);
        assert_eq!(store_of("/"), None);
    }
}
