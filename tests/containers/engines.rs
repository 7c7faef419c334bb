//! Engines of containers with state of their own below a directory, ended on drop.

use crate::common::exports::tool;
use crate::common::hosts::in_namespace;
use crate::common::{eventually, skipped, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// What each server answers.
const PAGE: &str = "hello";
const SERVER: &str = "exec httpd -f -p 80 -h /www";
const IMAGE: &str = "magscope-busybox";

/// The tools that an engine needs, and busybox for its image.
fn has(test: &str, tools: &[&str]) -> bool {
    // A daemon of an engine sets up the whole machine's mounts and rules.
    if std::env::var_os("MAGSCOPE_ENGINES").is_none() {
        skipped(test, "MAGSCOPE_ENGINES is not set (make test-all sets it)");
        return false;
    }
    if !tools.iter().all(|name| tool(test, name)) {
        return false;
    }
    let is_static =
        Command::new("ldd").arg("/bin/busybox").output().is_ok_and(|output| !output.status.success());
    if !is_static {
        skipped(test, "there is no static /bin/busybox (busybox-static)");
    }
    is_static
}

/// An archive of a root file system with busybox.
fn image(dir: &Path) -> PathBuf {
    let root = dir.join("image");
    fs::create_dir_all(root.join("bin")).expect("own directory");
    fs::create_dir_all(root.join("www")).expect("own directory");
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("busybox");
    for applet in ["sh", "sleep", "httpd", "wget", "true"] {
        symlink("busybox", root.join("bin").join(applet)).expect("a link");
    }
    fs::write(root.join("www/page"), PAGE).expect("a page");
    let pause = root.join("pause");
    fs::write(&pause, "#!/bin/sh\nexec sleep 100000\n").expect("a script");
    fs::set_permissions(&pause, fs::Permissions::from_mode(0o755)).expect("own file");
    let archive = dir.join("image.tar");
    let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status();
    assert!(packed.expect("tar starts").success());
    archive
}

/// A daemon in a namespace, with its messages in a file.
fn daemon(netns: &str, log: &Path, program: &str, arguments: &[String]) -> Child {
    let log = fs::File::create(log).expect("own directory");
    in_namespace(netns, || {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log.try_clone().expect("a file"));
        command.spawn().expect("the daemon starts")
    })
}

fn end(child: &mut Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let _ = child.wait();
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{} {}", stdout(output), stderr(output));
    stdout(output).trim().to_owned()
}

/// containerd with a directory and a socket of its own.
pub struct Containerd {
    child: Child,
    socket: String,
}

impl Containerd {
    pub fn start(test: &str, netns: &str, dir: &Path) -> Option<Self> {
        if !has(test, &["containerd", "ctr", "runc", "nsenter"]) {
            return None;
        }
        let containerd = Self::daemon(netns, dir);
        let archive = image(dir);
        // ctr imports archives of the form that Docker saves: a manifest, a configuration and the layer.
        let saved = saved(dir, &archive).display().to_string();
        succeeded(&containerd.ctr(&["image", "import", &saved]));
        Some(containerd)
    }

    fn daemon(netns: &str, dir: &Path) -> Self {
        let at = |name: &str| dir.join(name).display().to_string();
        let socket = at("containerd.sock");
        let options = [
            ("--root", at("containerd-root")),
            ("--state", at("containerd-state")),
            ("--address", socket.clone()),
        ];
        let arguments: Vec<String> =
            options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let child = daemon(netns, &dir.join("containerd.log"), "containerd", &arguments);
        let containerd = Containerd { child, socket };
        assert!(eventually(|| containerd.ctr(&["version"]).status.success()), "containerd answers");
        containerd
    }

    fn ctr(&self, arguments: &[&str]) -> Output {
        let all = [&["--address", &self.socket, "--namespace", "k8s.io"], arguments].concat();
        Command::new("ctr").args(all).output().expect("ctr starts")
    }

    /// Starts a server with the annotations of CRI.
    pub fn serve(&self, id: &str, name: &str, pod: &str, namespace: &str) {
        let mut arguments = vec!["run".to_owned(), "--detach".to_owned(), "--snapshotter=native".to_owned()];
        for (key, value) in [("container-name", name), ("sandbox-name", pod), ("sandbox-namespace", namespace)]
        {
            arguments.extend(["--annotation".to_owned(), format!("io.kubernetes.cri.{key}={value}")]);
        }
        let rest = [&format!("docker.io/library/{IMAGE}:latest"), id, "/bin/sh", "-c", SERVER];
        arguments.extend(rest.map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        succeeded(&self.ctr(&arguments));
        // Nothing sets up its namespace.
        let netns = format!("--net=/proc/{}/ns/net", self.pid(id));
        let up = Command::new("nsenter").args([&netns, "ip", "link", "set", "lo", "up"]).status();
        assert!(up.expect("nsenter starts").success());
    }

    fn pid(&self, id: &str) -> String {
        let tasks = succeeded(&self.ctr(&["task", "ls"]));
        let row = tasks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        row.into_iter().find(|row| row.first() == Some(&id)).expect("a task")[1].to_owned()
    }

    /// What the server of a container answers to its own container.
    pub fn fetch(&self, id: &str) -> String {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let mut last = String::new();
        // Until the server listens, wget is refused, which is no request.
        assert!(eventually(|| {
            // An id of a call that has failed stays in use.
            let call = format!("get-{}", CALLS.fetch_add(1, Relaxed));
            let get = ["/bin/wget", "-q", "-O", "-", "http://127.0.0.1/page"];
            let output = self.ctr(&[&["task", "exec", "--exec-id", &call, id], &get[..]].concat());
            last = stdout(&output);
            output.status.success()
        }));
        last
    }

    pub fn list(&self) -> Vec<String> {
        succeeded(&self.ctr(&["task", "ls", "--quiet"])).lines().map(str::to_owned).collect()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        for id in stdout(&self.ctr(&["task", "ls", "--quiet"])).lines() {
            self.ctr(&["task", "rm", "--force", id]);
            self.ctr(&["container", "rm", id]);
        }
        end(&mut self.child);
    }
}

/// An image of one layer as Docker saves it.
fn saved(dir: &Path, layer: &Path) -> PathBuf {
    let at = dir.join("saved");
    fs::create_dir_all(&at).expect("own directory");
    fs::copy(layer, at.join("layer.tar")).expect("room");
    let digest = Command::new("sha256sum").arg(layer).output().expect("sha256sum starts");
    let digest = stdout(&digest).split(' ').next().unwrap_or_default().to_owned();
    let config = serde_json::json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }, "os": "linux",
        "config": {"Cmd": ["/bin/sh"]}, "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    fs::write(at.join("config.json"), config.to_string()).expect("own directory");
    let manifest = serde_json::json!([{
        "Config": "config.json", "RepoTags": [format!("docker.io/library/{IMAGE}:latest")], "Layers": ["layer.tar"],
    }]);
    fs::write(at.join("manifest.json"), manifest.to_string()).expect("own directory");
    let archive = dir.join("saved.tar");
    let packed = Command::new("tar").arg("-C").arg(&at).arg("-cf").arg(&archive).arg(".").status();
    assert!(packed.expect("tar starts").success());
    archive
}

/// Docker with a data root of its own.
pub struct Docker {
    child: Child,
    socket: String,
    root: PathBuf,
    /// Ended after Docker.
    _containerd: Containerd,
}

impl Docker {
    pub fn start(test: &str, netns: &str, dir: &Path) -> Option<Self> {
        if !has(test, &["dockerd", "docker", "containerd", "ctr", "runc", "iptables"]) {
            return None;
        }
        let containerd = Containerd::daemon(netns, dir);
        let at = |name: &str| dir.join(name).display().to_string();
        let (socket, root) = (format!("unix://{}", at("docker.sock")), dir.join("docker-root"));
        let options = [
            ("--containerd", containerd.socket.clone()),
            ("--storage-driver", "vfs".to_owned()),
            ("--data-root", root.display().to_string()),
            ("--exec-root", at("docker-exec")),
            ("--pidfile", at("docker.pid")),
            ("--host", socket.clone()),
        ];
        let arguments: Vec<String> =
            options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let child = daemon(netns, &dir.join("docker.log"), "dockerd", &arguments);
        let docker = Docker { child, socket, root, _containerd: containerd };
        assert!(eventually(|| docker.docker(&["version"]).status.success()), "dockerd answers");
        succeeded(&docker.docker(&["import", &image(dir).display().to_string(), IMAGE]));
        Some(docker)
    }

    /// Its data root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn docker(&self, arguments: &[&str]) -> Output {
        Command::new("docker").arg("--host").arg(&self.socket).args(arguments).output().expect("docker starts")
    }

    fn run(&self, name: &str, options: &[&str], script: &str) {
        let all = [&["run", "--detach", "--name", name], options, &[IMAGE, "/bin/sh", "-c", script]].concat();
        succeeded(&self.docker(&all));
    }

    /// A container that serves a page; it listens on return.
    pub fn serve(&self, name: &str, options: &[&str]) {
        self.run(name, options, SERVER);
        let get = ["exec", name, "/bin/wget", "-q", "-O", "-", "http://127.0.0.1/page"];
        assert!(eventually(|| self.docker(&get).status.success()), "{name} serves");
    }

    /// A container that does nothing.
    pub fn idle(&self, name: &str, options: &[&str]) {
        self.run(name, options, "exec sleep 100000");
    }

    pub fn inspect(&self, name: &str, format: &str) -> String {
        succeeded(&self.docker(&["inspect", "--format", format, name]))
    }

    pub fn address(&self, name: &str) -> String {
        self.inspect(name, "{{.NetworkSettings.IPAddress}}")
    }

    /// What a server answers to a container.
    pub fn fetch(&self, from: &str, address: &str) -> String {
        succeeded(&self.docker(&[
            "exec",
            from,
            "/bin/wget",
            "-q",
            "-O",
            "-",
            &format!("http://{address}/page"),
        ]))
    }

    /// Ids and names.
    pub fn list(&self) -> Vec<(String, String)> {
        let rows = succeeded(&self.docker(&["ps", "--format", "{{.ID}} {{.Names}}"]));
        let pair = |line: &str| line.split_once(' ').map(|(id, name)| (id.to_owned(), name.to_owned()));
        rows.lines().filter_map(pair).collect()
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        for (_, name) in self.list() {
            self.docker(&["rm", "--force", &name]);
        }
        end(&mut self.child);
        // The namespaces that it has mounted.
        for file in
            fs::read_dir(self.root.with_file_name("docker-exec").join("netns")).into_iter().flatten().flatten()
        {
            let _ = Command::new("umount").arg(file.path()).output();
        }
    }
}

/// Podman with a store of its own.
pub struct Podman {
    netns: String,
    dir: PathBuf,
}

impl Podman {
    pub fn start(test: &str, netns: &str, dir: &Path) -> Option<Self> {
        if !has(test, &["podman", "conmon", "runc"]) {
            return None;
        }
        let config = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n\
                      [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n";
        fs::write(dir.join("containers.conf"), config).expect("own directory");
        let podman = Podman { netns: netns.to_owned(), dir: dir.to_owned() };
        succeeded(&podman.podman(&["import", &image(dir).display().to_string(), IMAGE]));
        Some(podman)
    }

    fn podman(&self, arguments: &[&str]) -> Output {
        let at = |name: &str| self.dir.join(name);
        in_namespace(&self.netns, || {
            let mut command = Command::new("podman");
            command.env("CONTAINERS_CONF", at("containers.conf"));
            command.arg("--root").arg(at("store")).arg("--runroot").arg(at("run"));
            command.args(["--storage-driver", "vfs", "--runtime", "runc"]).args(arguments);
            command.output().expect("podman starts")
        })
    }

    /// A container that serves a page, without a network but its own; it listens on return.
    pub fn serve(&self, name: &str, options: &[&str]) {
        let network: &[&str] = if options.is_empty() { &["--network", "none"] } else { options };
        let script = [IMAGE, "/bin/sh", "-c", SERVER];
        succeeded(&self.podman(&[&["run", "--detach", "--name", name], network, &script].concat()));
        let get = ["exec", name, "/bin/wget", "-q", "-O", "-", "http://127.0.0.1/page"];
        assert!(eventually(|| self.podman(&get).status.success()), "{name} serves");
    }

    pub fn pod(&self, name: &str) {
        let infra = ["--infra-image", IMAGE, "--infra-command", "/pause"];
        succeeded(
            &self.podman(&[&["pod", "create", "--network", "none"], &infra[..], &["--name", name]].concat()),
        );
    }

    /// What a server answers to its own container.
    pub fn fetch(&self, name: &str) -> String {
        succeeded(&self.podman(&["exec", name, "/bin/wget", "-q", "-O", "-", "http://127.0.0.1/page"]))
    }

    /// Ids, names and pods.
    pub fn list(&self) -> Vec<(String, String, String)> {
        let rows = succeeded(&self.podman(&["ps", "--pod", "--format", "{{.ID}} {{.Names}} {{.PodName}}"]));
        let row = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            Some((words.next()?, words.next()?, words.next().unwrap_or_default()))
        };
        rows.lines().filter_map(row).collect()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.podman(&["pod", "rm", "--all", "--force", "--time", "0"]);
        self.podman(&["rm", "--all", "--force", "--time", "0"]);
    }
}
